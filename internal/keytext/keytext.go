// Package keytext writes texts as they stand in keys (docs/rules.md, Keys): printable, so that each text has one form, and
// bounded. A backslash is \\, and each byte that is not part of a printable character is \xNN. A key that is too long
// becomes its beginning, [CutMark] and half of the SHA-256 of the complete key in hex. The package keeps nothing, and only
// Cut takes more time than that of copying.
package keytext

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxBytes is the length of the longest key.
	MaxBytes = 256
	// CutMark is only in a key that was cut: in a text it is escaped.
	CutMark = "…#"

	hashBytes = 16
)

// plain are the bytes that stand for themselves wherever they are, except the space.
var plain = func() (table [256]bool) {
	for c := '!'; c <= '~'; c++ {
		table[c] = c != '\\'
	}
	return table
}()

// IsPlain reports whether a text is its own key. It may return false for one with other letters than ASCII.
func IsPlain(text string) bool {
	for i := range len(text) {
		if !plain[text[i]] && text[i] != ' ' {
			return false
		}
	}
	return len(text) <= MaxBytes
}

// Append appends a text so that it can be printed and read back. In a list of texts, which has spaces between them, it
// also escapes spaces.
func Append(b []byte, text string, listed bool) []byte {
	start := 0
	for i := 0; i < len(text); {
		if plain[text[i]] || (text[i] == ' ' && !listed) {
			i++
			continue
		}

		// Ordinary bytes are copied in runs; only here are characters decoded.
		size, keep := printable(text[i:])
		if keep {
			i += size
			continue
		}

		b = append(b, text[start:i]...)
		for end := i + size; i < end; i++ {
			b = appendEscaped(b, text[i])
		}

		start = i
	}

	return append(b, text[start:]...)
}

// printable is the size of the first character of text, and whether it needs no escape.
func printable(text string) (size int, keep bool) {
	r, size := utf8.DecodeRuneInString(text)
	if r < utf8.RuneSelf || (r == utf8.RuneError && size == 1) {
		return 1, false
	}
	return size, unicode.IsPrint(r) && !strings.HasPrefix(text, CutMark)
}

func appendEscaped(b []byte, c byte) []byte {
	if c == '\\' {
		return append(b, `\\`...)
	}
	const digits = "0123456789abcdef"
	return append(b, '\\', 'x', digits[c>>4], digits[c&15])
}

// Cut shortens the key that begins at start to its beginning, the mark and a hash of the complete key, if it is too long.
func Cut(b []byte, start int) []byte {
	if len(b)-start <= MaxBytes {
		return b
	}
	sum := sha256.Sum256(b[start:])
	end := start

	// The end is between characters and between escapes, so that what is left can be read back.
	for limit := start + MaxBytes - len(CutMark) - 2*hashBytes; ; {
		size := unit(b[end:])
		if end+size > limit {
			break
		}
		end += size
	}
	b = append(b[:end], CutMark...)
	return hex.AppendEncode(b, sum[:hashBytes])
}

// unit is the length of the character or escape at the start of b.
func unit(b []byte) int {
	if b[0] == '\\' {
		// The length of the escape at the start of b.
		if len(b) > 1 && b[1] == 'x' {
			return min(4, len(b))
		}
		return min(2, len(b))
	}
	_, size := utf8.DecodeRune(b)
	return size
}
