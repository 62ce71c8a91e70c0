package listeners

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// label reads the labels of a stream as they stand in protobuf: {job="nginx", host="web-1"}.
func (l *lokiPush) label(text string) bool {
	text, ok := strings.CutPrefix(strings.TrimSpace(text), "{")
	for ok {
		text = strings.TrimLeft(text, " ,")
		if text == "}" {
			return true
		}
		var name, quoted string
		if name, text, ok = strings.Cut(text, "="); !ok {
			return false
		}
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return false
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return false
		}
		text = text[len(quoted):]
		l.labels = appendAttribute(l.labels, 1, strings.TrimSpace(name), value)
	}
	return false
}

// readJSON reads a push in JSON, token by token: {"streams": [{"stream": {…}, "values": [["nanoseconds", "line", {…}]]}]}.
func (l *lokiPush) readJSON(push []byte) bool {
	d := json.NewDecoder(bytes.NewReader(push))
	return object(d, func(key string) bool {
		if key != "streams" {
			return skip(d)
		}
		return array(d, func() bool {
			l.begin()
			return object(d, func(key string) bool {
				switch key {
				case "stream", "labels":
					return l.pairs(d, func(name, value string) { l.labels = appendAttribute(l.labels, 1, name, value) })
				case "values":
					return array(d, func() bool { return l.jsonEntry(d) })
				}
				return skip(d)
			}) && l.end()
		})
	}) && d.InputOffset() >= int64(len(bytes.TrimRight(push, " \t\r\n")))
}

// jsonEntry reads ["nanoseconds", "line", {"name": "value"}], whose last element need not be there.
func (l *lokiPush) jsonEntry(d *json.Decoder) bool {
	var at uint64
	line, element := "", 0
	ok := array(d, func() bool {
		element++
		if element == 3 {
			return l.pairs(d, func(name, value string) { l.metadata = appendAttribute(l.metadata, attributeOfScope, name, value) })
		}
		token, err := d.Token()
		text, is := token.(string)
		if err != nil || !is || element > 3 {
			return false
		}
		if element == 1 {
			at, err = strconv.ParseUint(text, 10, 64)
		} else {
			line = text
		}
		return err == nil
	})
	return ok && element >= 2 && l.entry(at, line)
}

// pairs reads an object of texts.
func (l *lokiPush) pairs(d *json.Decoder, add func(name, value string)) bool {
	return object(d, func(name string) bool {
		token, err := d.Token()
		value, is := token.(string)
		if err == nil && is {
			add(name, value)
		}
		return err == nil && is
	})
}

// object reads an object, or null. member reads the value of a key.
func object(d *json.Decoder, member func(key string) bool) bool {
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return err == nil && token == nil
	}
	for d.More() {
		token, err := d.Token()
		key, is := token.(string)
		if err != nil || !is || !member(key) {
			return false
		}
	}
	_, err := d.Token()
	return err == nil
}

// array reads an array, or null. element reads each of its values.
func array(d *json.Decoder, element func() bool) bool {
	if token, err := d.Token(); err != nil || token != json.Delim('[') {
		return err == nil && token == nil
	}
	for d.More() {
		if !element() {
			return false
		}
	}
	_, err := d.Token()
	return err == nil
}

// skip reads a value that has no meaning.
func skip(d *json.Decoder) bool {
	var value json.RawMessage
	return d.Decode(&value) == nil
}
