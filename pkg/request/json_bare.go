package request

import "strings"

// withBareValues returns the text of an object in which nginx wrote values without quotes. With
// `"us":$upstream_status` in a log_format, it writes `"us":502, 200` where two servers were asked, and `"us":-` or
// `"us":` where it has answered itself. Such lines are not JSON, but a client must not avoid its count by the requests
// that lead to them. The result has these values as texts, or null. It is empty if there are none, or if a string has
// no end.
//
// They have digits and marks only. So neither a key nor a text can begin in them, whatever a client sends.
func withBareValues(text string) string {
	var b strings.Builder
	from := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end, _ := endOfString(text, i)
			if end < 0 {
				return ""
			}
			i = end - 1
		case ':':
			end, is := endOfBareValue(text, i+1)
			if !is {
				i = end - 1
				continue
			}
			if value := strings.TrimSpace(text[i+1 : end]); value == "" || endOfNumber(value, 0) < len(value) {
				b.WriteString(text[from : i+1])
				b.WriteString(bareValue(value))
				from = end
			}
			i = end - 1
		}
	}
	if from == 0 {
		return ""
	}
	b.WriteString(text[from:])
	return b.String()
}

func bareValue(value string) string {
	if value == "" || value == "-" {
		return "null"
	}
	return `"` + value + `"`
}

// endOfBareValue finds the comma or bracket behind a value without quotes. If the value is another one, end is the first
// character that cannot stand in one without quotes.
func endOfBareValue(t string, i int) (end int, is bool) {
	comma := -1
	for ; i < len(t); i++ {
		switch c := t[i]; {
		case c == ',':
			comma = i
		case c == '"' && comma >= 0:
			return comma, true
		case c == '}':
			return i, true
		case c >= '0' && c <= '9', c == '.', c == '-', c == ':', c == ' ':
		default:
			return i, false
		}
	}
	return i, false
}
