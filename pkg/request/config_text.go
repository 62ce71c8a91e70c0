package request

import (
	"fmt"
	"strings"
)

// Users copy formats from a server's configuration: in quotes or not, as one string or as several.

const configSpace = " \t\r\n"

// cutSpace splits s at the first white space.
func cutSpace(s string) (before, after string, found bool) {
	end := strings.IndexAny(s, configSpace)
	if end < 0 {
		return s, "", false
	}
	return s[:end], strings.TrimLeft(s[end:], configSpace), true
}

// isQuotedOnce reports whether s is one string in double quotes.
func isQuotedOnce(s string) bool {
	if len(s) < 2 || s[0] != '"' {
		return false
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i == len(s)-1
		}
	}
	return false
}

// joinQuoted reads 'a' "b" c, with white space between, as one string.
func joinQuoted(s string) (string, error) {
	var joined strings.Builder
	for s = strings.TrimLeft(s, configSpace); s != ""; s = strings.TrimLeft(s, configSpace) {
		part, rest, ok := cutQuoted(s)
		if !ok {
			return "", fmt.Errorf("the quote that opens %.20q is not closed", s)
		}
		joined.WriteString(part)
		s = rest
	}
	return joined.String(), nil
}

// cutQuoted takes one string, in quotes or a word, off s and resolves its escapes.
func cutQuoted(s string) (part, rest string, ok bool) {
	quote := s[0]
	if quote != '\'' && quote != '"' {
		part, _, _ = cutSpace(s)
		return part, s[len(part):], true
	}

	var out []byte
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return string(out), s[i+1:], true
		// The byte after a backslash never ends the string, not even the quote.
		case s[i] == '\\' && i+1 < len(s):
			i++
			out = append(out, configEscape(s[i])...)
		default:
			out = append(out, s[i])
		}
	}

	return "", "", false
}

// unescapedConfig resolves the escapes that remain when a format was copied from a configuration without its quotes.
func unescapedConfig(s string) string {
	if strings.Contains(s, `\"`) || strings.Contains(s, `\t`) {
		s = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\t`, "\t").Replace(s)
	}
	return s
}

// configEscape is the meaning of a backslash and a byte in a configuration's string.
func configEscape(b byte) string {
	switch b {
	case '"', '\'', '\\':
		return string(b)
	case 't':
		return "\t"
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	}
	return `\` + string(b)
}
