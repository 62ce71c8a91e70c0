package main

import (
	"strconv"
	"strings"
	"unicode"
)

// printable is a text of others as a terminal may be shown it: who names themselves as an escape sequence, or in two lines,
// writes no line of ours. What cannot be shown is written as Go writes it, \x1b and \n.
func printable(text string) string {
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
