package keytext

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Shown makes text from outside safe to show: a client that puts escape sequences, line breaks or marks for the
// direction of text into its name must not be able to fake our output. It writes such characters as Go does: \x1b, \n
// and \u202e.
func Shown(text string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }
	if strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}

	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, string(unicode.ReplacementChar)) {
		if plain(r) || r == unicode.ReplacementChar {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}

	return b.String()
}

// Beginning returns the beginning of a text of more than so many bytes, with its length.
func Beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
}
