package request

import (
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

func skipSpace(t string, i int) int {
	for i < len(t) && (t[i] == ' ' || t[i] == '\n' || t[i] == '\t' || t[i] == '\r') {
		i++
	}
	return i
}

func endOfWord(t string, i int, word string) int {
	if !strings.HasPrefix(t[i:], word) {
		return -1
	}
	return i + len(word)
}

func endOfNumber(t string, i int) int {
	if t[i] == '-' {
		i++
	}
	integer := i
	// Leading zeros are refused, as encoding/json does.
	if i = skipDigits(t, i); i == integer || t[integer] == '0' && i > integer+1 {
		return -1
	}

	if i < len(t) && t[i] == '.' {
		fraction := i + 1
		if i = skipDigits(t, fraction); i == fraction {
			return -1
		}
	}

	if i < len(t) && t[i]|0x20 == 'e' {
		i++
		if i < len(t) && (t[i] == '+' || t[i] == '-') {
			i++
		}
		exponent := i
		if i = skipDigits(t, i); i == exponent {
			return -1
		}
	}

	return i
}

func skipDigits(t string, i int) int {
	for i < len(t) && t[i]-'0' <= 9 {
		i++
	}
	return i
}

// endOfString reads the string whose quote stands at i.
func endOfString(t string, i int) (end int, escaped bool) {
	i++
	for {
		if i = skipPlain(t, i); i >= len(t) {
			return -1, false
		}
		switch {
		case t[i] == '"':
			return i + 1, escaped
		// A control character, which JSON refuses.
		case t[i] != '\\':
			return -1, false
		}

		escaped = true
		if i = endOfEscape(t, i); i < 0 {
			return -1, false
		}
	}
}

// skipPlain finds the next quote, backslash or control character, eight bytes at a time: in w^x*ones the bytes
// that equal x are zero, and (v-ones)&^v has the high bit of the first zero byte set.
func skipPlain(t string, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(t); i += 8 {
		w := uint64(t[i]) | uint64(t[i+1])<<8 | uint64(t[i+2])<<16 | uint64(t[i+3])<<24 |
			uint64(t[i+4])<<32 | uint64(t[i+5])<<40 | uint64(t[i+6])<<48 | uint64(t[i+7])<<56
		quote, slash := w^ones*'"', w^ones*'\\'
		found := ((w-ones*' ')&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}

	for i < len(t) && t[i] >= ' ' && t[i] != '"' && t[i] != '\\' {
		i++
	}
	return i
}

func endOfEscape(t string, i int) int {
	digits := 0
	switch {
	case i+1 >= len(t):
		return -1
	case t[i+1] == 'u':
		digits = 4
	case t[i+1] == 'x':
		digits = 2
	case strings.IndexByte(`"\/bfnrt`, t[i+1]) < 0:
		return -1
	}

	i += 2
	if i+digits > len(t) {
		return -1
	}

	for ; digits > 0; digits-- {
		if t[i]-'0' > 9 && t[i]|0x20-'a' > 5 {
			return -1
		}
		i++
	}

	return i
}

// appendUnescaped appends the text that a JSON string stands for. Half a surrogate pair becomes U+FFFD, as in
// encoding/json; bytes that are not UTF-8 stay.
func appendUnescaped(b []byte, s string) []byte {
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			return append(b, s...)
		}

		b = append(b, s[:i]...)
		escape := s[i+1]
		s = s[i+2:]
		switch escape {
		case 'u':
			var r rune
			r, s = unescapeRune(s)
			b = utf8.AppendRune(b, r)
		// nginx writes bytes so, unless it has escape=json.
		case 'x':
			b = append(b, byte(hexadecimal(s[:2])))
			s = s[2:]
		case 'b', 'f', 'n', 'r', 't':
			b = append(b, "\b\f\n\r\t"[strings.IndexByte("bfnrt", escape)])
		default:
			b = append(b, escape)
		}
	}
}

// unescapeRune reads the digits after \u, with the other half of a pair, and returns the rest.
func unescapeRune(s string) (rune, string) {
	r := hexadecimal(s[:4])
	s = s[4:]
	if !utf16.IsSurrogate(r) {
		return r, s
	}
	if strings.HasPrefix(s, `\u`) {
		if pair := utf16.DecodeRune(r, hexadecimal(s[2:6])); pair != utf8.RuneError {
			return pair, s[6:]
		}
	}
	return utf8.RuneError, s
}

func hexadecimal(digits string) rune {
	n := rune(0)
	for i := 0; i < len(digits); i++ {
		digit := digits[i] - '0'
		if digit > 9 {
			digit = digits[i] | 0x20 - 'a' + 10
		}
		n = n<<4 | rune(digit)
	}
	return n
}

// textAt is the value of a slot as text: strings unescaped, numbers and booleans as written, an array as its elements
// with commas between, as HTTP joins headers of one name. A missing value, null and an object are "".
func (s *jsonScan) textAt(slot int) string {
	v, ok := s.get(slot)
	if !ok {
		return ""
	}
	return s.textOf(v)
}

func (s *jsonScan) textOf(v *jsonValue) string {
	switch {
	case v.kind == jsonArray:
		v.raw, v.kind = s.joined(v.raw), jsonString
	case v.kind == jsonObject || v.kind == jsonNull:
		return ""
	case v.escaped:
		from := len(s.text)
		s.text = appendUnescaped(s.text, v.raw)

		// Unescape once, though several callers may ask for it.
		v.raw, v.escaped = Text(s.text[from:]), false
	}
	return v.raw
}

func (s *jsonScan) joined(array string) string {
	from := len(s.text)
	for v, i := s.next(array, 0); i > 0; v, i = s.next(array, i) {
		if v.kind == jsonString || v.kind == jsonNumber || v.kind == jsonBool {
			s.join(from, v)
		}
	}
	return Text(s.text[from:])
}

// join adds an element to the list that begins at from.
func (s *jsonScan) join(from int, v jsonValue) {
	if len(s.text) > from {
		s.text = append(s.text, ", "...)
	}
	s.text = appendUnescaped(s.text, v.raw)
}

// next is the element of an array after the one that ended at i (0 before the first), and the index where it ends; -1
// when there is none. The array has been scanned before, or is "".
func (s *jsonScan) next(array string, i int) (jsonValue, int) {
	if array == "" {
		return jsonValue{}, -1
	}
	if i == 0 {
		i = 1
	}
	if i = skipSpace(array, i); array[i] == ',' {
		i = skipSpace(array, i+1)
	}
	if array[i] == ']' {
		return jsonValue{}, -1
	}

	return s.element(array, i, nil, 1)
}
