package blocklist

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Texts in keys, as docs/rules.md has them: a backslash is \\, and each byte that cannot be printed, or would begin the
// mark, is \xNN. A text longer than maxKeyText becomes its beginning, a mark and half of the SHA-256 of the complete
// text.
const (
	maxKeyText = 256
	cutMark    = "…#"
	hashBytes  = 16
)

// plain reports whether a text is its own key.
func plain(text string) bool {
	if len(text) > maxKeyText {
		return false
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' || text[i] == '\\' {
			return false
		}
	}
	return true
}

// appendKey appends the key of a text.
func appendKey(b []byte, text string) []byte {
	start, end := len(b), len(b)
	limit := start + maxKeyText - len(cutMark) - 2*hashBytes
	for i := 0; i < len(text); {
		_, size := utf8.DecodeRuneInString(text[i:])
		b = appendCharacter(b, text[i:i+size], strings.HasPrefix(text[i:], cutMark))
		if i += size; len(b) <= limit {
			end = len(b)
		}
	}

	if len(b)-start <= maxKeyText {
		return b
	}
	sum := sha256.Sum256(b[start:])
	return hex.AppendEncode(append(b[:end], cutMark...), sum[:hashBytes])
}

func appendCharacter(b []byte, character string, marks bool) []byte {
	r, size := utf8.DecodeRuneInString(character)
	switch {
	case r == '\\':
		return append(b, `\\`...)
	case r == utf8.RuneError && size <= 1 || !unicode.IsPrint(r) || marks:
		for i := range len(character) {
			b = hex.AppendEncode(append(b, `\x`...), []byte{character[i]})
		}
		return b
	}
	return append(b, character...)
}
