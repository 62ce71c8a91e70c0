package request

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzJSON: for any text, the scan agrees with encoding/json.
//
//   - it accepts one valid object and nothing else, except that brackets below maxDepth need not fit;
//   - at every path of the text it finds the last value that json.Decoder finds there, but for numbered keys;
//   - where no path occurs twice, it finds the same as json.Unmarshal;
//   - a parser of JSON gives a request or a known reason, and the same again.
//
// \xHH and values without quotes are ours: for the twin they are written \u00HH, and in quotes.
func FuzzJSON(f *testing.F) {
	for _, record := range benchRecords {
		f.Add(record)
	}
	for _, file := range caseFiles(f) {
		for _, record := range readCase(f, file).records {
			f.Add(record)
		}
	}
	for _, text := range []string{`{"a":{"b":1},"a":{"c":2},"a.b":3}`, `{"a":1,"a":null}`, `{"":{"":1,".":2}}`, `{"a":[[1],{"b":[]}]}`,
		`{"a":"\ud83d\ude00\ud800\u0041\udc00"}`, `{"\u0061\u002eb":1}`, `{"a":-0.0e+1}`, `{"a":01}`, `{"a":"` + "\x01" + `"}`, ` { } `, `{"a":,"b":-,"c":0.1, 0.2 : 3,"d":000}`} {
		f.Add(text)
	}
	parsers := []Parser{newJSONParser("json", Options{}), newJSONParser("json", Options{Fields: map[string]string{"user": "a.b"}})}
	f.Fuzz(func(t *testing.T, text string) {
		if bare := withBareValues(text); bare != "" && !json.Valid([]byte(withoutHex(text))) && json.Valid([]byte(withoutHex(bare))) {
			text = bare
		}
		twin := withoutHex(text)
		found, depth := twinValues(twin)
		s := newJSONScan()
		for path := range found {
			s.slot(path)
		}
		s.slot("a.b")
		ok := s.read(text)
		deep := depth > maxDepth || found == nil && strings.Count(text, "[")+strings.Count(text, "{") > maxDepth
		if want := found != nil; ok != want && (want || !deep) {
			t.Fatalf("read %t, want %t", ok, want)
		}
		if deep {
			return
		}
		// encoding/json replaces bytes that are not UTF-8, in keys too; we keep them.
		if ok && !strings.Contains(text, `\x`) && utf8.ValidString(text) {
			compareWithTokens(t, s, found)
			compareWithUnmarshal(t, s, text, len(found))
		}
		for _, p := range parsers {
			checkParser(t, p, text)
		}
	})
}

// withoutHex writes \xHH as \u00HH. Outside of strings a backslash is wrong either way.
func withoutHex(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		if i+3 < len(text) && text[i+1] == 'x' && isHex(text[i+2]) && isHex(text[i+3]) {
			b.WriteString(`\u00` + text[i+2:i+4])
			i += 3
			continue
		}
		b.WriteString(text[i : i+2])
		i++
	}
	return b.String()
}

// twinValues are the last values of all paths; nil when the text is not an object. An object or array is its bracket.
func twinValues(text string) (found map[string]any, depth int) {
	if !json.Valid([]byte(text)) || strings.TrimLeft(text, " \t\r\n")[0] != '{' {
		return nil, 0
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	found = map[string]any{}
	var walk func(path, prefix string, level int)
	walk = func(path, prefix string, level int) {
		token, _ := d.Token()
		bracket, ok := token.(json.Delim)
		if !ok {
			found[path] = token
			return
		}
		depth = max(depth, level)
		for i := 0; d.More(); i++ {
			key := strconv.Itoa(i)
			if bracket == '{' {
				name, _ := d.Token()
				key = name.(string)
			}
			if (bracket == '{' || i < 100) && (bracket == '[' || level == 1 || !numbered.MatchString(key)) {
				walk(prefix+key, prefix+key+".", level+1)
			} else {
				var skipped json.RawMessage
				_ = d.Decode(&skipped)
				depth = max(depth, level+nesting(string(skipped)))
			}
		}
		_, _ = d.Token()
		if level > 1 {
			found[path] = bracket
		}
	}
	walk("", "", 1)
	return found, depth
}

// numbered are keys that would be an array's element.
var numbered = regexp.MustCompile(`[.][0-9]+([.]|$)`)

// nesting is the depth of a valid text.
func nesting(text string) (deepest int) {
	d := json.NewDecoder(strings.NewReader(text))
	level := 0
	for {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			level++
			deepest = max(deepest, level)
		case json.Delim('}'), json.Delim(']'):
			level--
		}
	}
}

func compareWithTokens(t *testing.T, s *jsonScan, found map[string]any) {
	for path, want := range found {
		slot, _ := s.find(path)
		v, ok := s.get(slot)
		if ok != (want != nil) {
			t.Fatalf("%q: there %t, want %v", path, ok, want)
		}
		if !ok {
			continue
		}
		switch want := want.(type) {
		case json.Delim:
			if kind := map[json.Delim]jsonKind{'{': jsonObject, '[': jsonArray}[want]; v.kind != kind {
				t.Fatalf("%q: kind %d, want %v", path, v.kind, want)
			}
		default:
			compareScalar(t, s, path, v, want)
		}
	}
}

func compareScalar(t *testing.T, s *jsonScan, path string, v *jsonValue, want any) {
	var text string
	kind := jsonString
	switch want := want.(type) {
	case string:
		text = want
	case json.Number:
		text, kind = want.String(), jsonNumber
	case bool:
		text, kind = strconv.FormatBool(want), jsonBool
	}
	if got := s.textOf(v); got != text || v.kind != kind {
		t.Fatalf("%q: %d %q, want %d %q", path, v.kind, got, kind, text)
	}
}

// compareWithUnmarshal is for texts in which every path occurs once.
func compareWithUnmarshal(t *testing.T, s *jsonScan, text string, paths int) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	flat := map[string]any{}
	count := flatten(flat, "", all)
	if count != len(flat) || count != paths {
		return
	}
	for path, want := range flat {
		if want == nil {
			continue
		}
		slot, _ := s.find(path)
		if v, ok := s.get(slot); !ok {
			t.Fatalf("%q is not there", path)
		} else {
			compareScalar(t, s, path, v, want)
		}
	}
}

// flatten stores the scalars of a value under their paths, and counts all values.
func flatten(into map[string]any, prefix string, value any) (count int) {
	add := func(key string, value any) {
		switch value.(type) {
		case map[string]any, []any:
			into[prefix+key] = nil
			count += 1 + flatten(into, prefix+key+".", value)
		default:
			into[prefix+key] = value
			count++
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			if prefix == "" || !numbered.MatchString(key) {
				add(key, member)
			}
		}
	case []any:
		for i, element := range value {
			add(strconv.Itoa(i), element)
		}
	}
	return count
}

func checkParser(t *testing.T, p Parser, text string) {
	var first, second Request
	err := p.Parse(text, &first)
	described := describe(&first, err)
	switch {
	case err == nil && (first.UnixMilli < 0 || first.UnixMilli >= timeEnd):
		t.Fatalf("time %d", first.UnixMilli)
	case err != nil && err != ErrNoRequest && Reason(err) == "":
		t.Fatalf("unknown error %v", err)
	case len(first.Fields) > maxFurther+1:
		t.Fatalf("%d further fields", len(first.Fields))
	}
	if again := describe(&second, p.Parse(text, &second)); again != described {
		t.Fatalf("first %s then %s", described, again)
	}
}
