package listeners

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
)

func recordsOf(p *post) (records []string, err error) {
	err = p.each(func(record []byte) error { records = append(records, string(record)); return nil })
	return records, err
}

// For any body:
//   - its lines are what a plain split gives, without empty ones;
//   - where the standard library reads objects, arrays and strings, one after the other, the records are the values
//     that it reads, those of arrays taken out.
func FuzzHTTPRecords(f *testing.F) {
	for _, seed := range []string{"", "a\r\nb\n\nc", `{"a":1}{"b":"}"}`, "[{\"a\":[1]},\n {} ]\n[]", `["a\"b", "ü"]`, `[{}`, `[{},]`, `[,]`, `{}]`, `"\`, `[[1],{"a":"\\"}]`, "[1]", "null"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		lines, err := recordsOf(&post{body: body})
		if want := plainRecords(body); err != nil || !slices.Equal(lines, want) {
			t.Fatalf("lines %q, %v, want %q", lines, err, want)
		}
		records, err := recordsOf(&post{body: body, json: true})
		if err != nil && !errors.Is(err, errNotJSON) {
			t.Fatal(err)
		}
		if want, ok := plainValues(body); ok && (err != nil || !slices.Equal(records, want)) {
			t.Fatalf("values %q, %v, want %q", records, err, want)
		}
	})
}

func plainRecords(body []byte) (lines []string) {
	for _, line := range bytes.Split(body, []byte("\n")) {
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) > 0 {
			lines = append(lines, string(line))
		}
	}
	return lines
}

// plainValues is the slow twin of eachJSON; ok is false where the standard library sees no JSON, or numbers and words.
func plainValues(body []byte) (values []string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	for {
		var value json.RawMessage
		switch err := d.Decode(&value); {
		case errors.Is(err, io.EOF):
			return values, true
		case err != nil:
			return nil, false
		}
		elements := []json.RawMessage{value}
		if value[0] == '[' {
			elements = nil
			json.Unmarshal(value, &elements)
		}
		for _, element := range elements {
			text := string(element)
			switch element[0] {
			case '"':
				json.Unmarshal(element, &text)
			case '{', '[':
			default:
				return nil, false
			}
			values = append(values, text)
		}
	}
}
