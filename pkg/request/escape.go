package request

import "strings"

// An escape is the way in which a server writes the characters that would end a field.
type escape uint8

const (
	escapeBackslash escape = iota // \x22 and \" of nginx and Apache, and the escapes of JSON
	escapeHash                    // #22 of HAProxy
	escapePercent                 // %22 of URLs
	escapeNone
)

// mark is the first byte of an escape.
func (e escape) mark() byte {
	return `\#%`[e]
}

// within is e if the line has escapes, else none.
func (e escape) within(line string) escape {
	if e == escapeNone || strings.IndexByte(line, e.mark()) < 0 {
		return escapeNone
	}
	return e
}

// undo returns the text that was escaped. Anything that is not an escape stays as it is. Memory is allocated only when
// there is an escape.
func (e escape) undo(text string) string {
	if e.within(text) == escapeNone {
		return text
	}
	mark := strings.IndexByte(text, e.mark())

	// No escape is shorter than what it stands for, so this is enough.
	out := make([]byte, 0, len(text))
	for mark >= 0 {
		out = append(out, text[:mark]...)
		var size int
		if e == escapeBackslash {
			out, size = appendBackslash(out, text[mark:])
		} else {
			out, size = appendByte(out, text[mark:])
		}
		text = text[mark+size:]
		mark = strings.IndexByte(text, e.mark())
	}

	return Text(append(out, text...))
}

// appendBackslash appends the character of the escape at the start of text, and returns the escape's length.
func appendBackslash(out []byte, text string) ([]byte, int) {
	if end := endOfEscape(text, 0); end > 0 {
		return appendUnescaped(out, text[:end]), end
	}
	if strings.HasPrefix(text, `\v`) {
		return append(out, '\v'), 2
	}
	return append(out, text[0]), 1
}

// appendByte appends the byte of a mark and two hexadecimal digits.
func appendByte(out []byte, text string) ([]byte, int) {
	if len(text) < 3 || !isHex(text[1]) || !isHex(text[2]) {
		return append(out, text[0]), 1
	}
	return append(out, byte(hexadecimal(text[1:3]))), 3
}

func isHex(b byte) bool { return b-'0' <= 9 || b|0x20-'a' <= 5 }
