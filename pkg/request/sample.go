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

// Target is the path and the query of a request in the form of Sample, cut to about that many bytes. A path or query
// may contain any character.
func Target(path, query string, most int) string {
	s := sampler{line: path}
	for s.at < len(path) && s.out.Len() <= most {
		s.step()
	}

	// The query is not part of a line, so no character of it ends a value except those between two parameters.
	for i := 0; query != "" && s.out.Len() <= most; i++ {
		end := strings.IndexAny(query, "&;")
		parameter, rest := query, ""
		separator := ""
		if end >= 0 {
			parameter, separator, rest = query[:end], query[end:end+1], query[end+1:]
		}
		if i == 0 {
			s.out.WriteByte('?')
		}
		s.parameter(parameter)
		s.out.WriteString(separator)
		query = rest
	}

	if s.at == len(path) && query == "" && s.out.Len() <= most {
		return s.out.String()
	}
	return cut(s.out.String(), most-len("…")) + "…"
}

// parameter writes the name of a parameter, and stars for its value.
func (s *sampler) parameter(text string) {
	name, value, has := strings.Cut(text, "=")
	s.printable(name)
	if has {
		s.out.WriteByte('=')
	}
	if value != "" {
		s.out.WriteString("***")
	}
}

func (s *sampler) printable(text string) {
	for len(text) > 0 {
		char, size := utf8.DecodeRuneInString(text)
		s.rune(char, text[:size])
		text = text[size:]
	}
}

// rune writes a character, or its bytes if it cannot be printed.
func (s *sampler) rune(char rune, bytes string) {
	if char == utf8.RuneError && len(bytes) == 1 || !unicode.IsPrint(char) {
		s.hex(bytes)
		return
	}
	s.out.WriteString(bytes)
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
	s.rune(char, s.line[s.at:s.at+size])
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

func (s *sampler) hex(bytes string) {
	const digits = "0123456789abcdef"
	for _, b := range []byte(bytes) {
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
