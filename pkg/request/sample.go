package request

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const sampleBytes = 200

// Sample is the part of a line that may be shown in a log or a report: its first 200 bytes, printable (other bytes as
// \xNN), with every value in a query string and the word after Bearer or Basic replaced by ***.
func Sample(line string) string {
	s := sampler{line: line}
	s.credentials()
	for s.at < len(line) && s.out.Len() <= sampleBytes {
		s.step()
	}
	if s.at == len(line) && s.out.Len() <= sampleBytes {
		return s.out.String()
	}
	return cut(s.out.String(), sampleBytes-len("…")) + "…"
}

type sampler struct {
	line  string
	at    int
	query bool // within a query string
	out   strings.Builder
}

// step writes the text at s.at and moves past it.
func (s *sampler) step() {
	char, size := utf8.DecodeRuneInString(s.line[s.at:])
	switch {
	case char == utf8.RuneError && size == 1, !unicode.IsPrint(char):
		s.hex(size)
	default:
		s.out.WriteString(s.line[s.at : s.at+size])
	}

	s.at += size
	switch {
	case char == '?':
		s.query = true
	case strings.ContainsRune(queryEnds, char):
		s.query = false
		s.credentials()
	case strings.ContainsRune(quotes, char):
		s.credentials()
	case s.query && char == '=':
		s.mask(queryEnds + "&;")
	}
}

const (
	queryEnds = " \t\"\r\n" // a logged query string cannot contain them
	quotes    = `'<>\{}`    // may stand around a text, and a query string may contain them
)

// credentials masks the word after Bearer or Basic.
func (s *sampler) credentials() {
	for _, scheme := range [...]string{"bearer ", "basic "} {
		if len(s.line)-s.at > len(scheme) && strings.EqualFold(s.line[s.at:s.at+len(scheme)], scheme) {
			s.out.WriteString(s.line[s.at : s.at+len(scheme)])
			s.at += len(scheme)
			s.mask(queryEnds + quotes)
			return
		}
	}
}

// mask replaces the text before the next of the ends.
func (s *sampler) mask(ends string) {
	length := strings.IndexAny(s.line[s.at:], ends)
	if length < 0 {
		length = len(s.line) - s.at
	}
	if length > 0 {
		s.out.WriteString("***")
	}
	s.at += length
}

func (s *sampler) hex(size int) {
	const digits = "0123456789abcdef"
	for _, b := range []byte(s.line[s.at : s.at+size]) {
		s.out.WriteString(`\x`)
		s.out.WriteByte(digits[b>>4])
		s.out.WriteByte(digits[b&15])
	}
}

// cut is s without the bytes beyond size, and without a partial character at its end.
func cut(s string, size int) string {
	for size > 0 && !utf8.RuneStart(s[size]) {
		size--
	}
	return s[:size]
}
