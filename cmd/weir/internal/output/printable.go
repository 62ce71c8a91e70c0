package output

import (
	"strconv"
	"strings"
	"unicode"
)

// Printable makes text from outside safe for a terminal: a client that puts escape sequences or line breaks into its name
// must not be able to fake our output. It writes such characters as Go does: \x1b and \n.
func Printable(text string) string {
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
