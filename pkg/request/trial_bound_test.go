package request

import (
	"fmt"
	"strings"
	"testing"
)

// One body may unpack to millions of requests. All formats would read all of them: a minute and more for each body.
func TestATrialReadsNotAllOfALongRecord(t *testing.T) {
	const many, most = 3000, 2500
	const line = `198.51.100.9 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "x"`
	log := `{"body":{"stringValue":` + quote(line) + `}}`
	each := strings.Repeat(","+log, many)[1:]
	for name, one := range map[string]string{
		"lines":               strings.Repeat(line+"\n", many),
		"log records":         `{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + each + `]}]}]}`,
		"scopes":              `{"resourceLogs":[{"scopeLogs":[` + strings.ReplaceAll(each, log, `{"logRecords":[`+log+`]}`) + `]}]}`,
		"resources":           `{"resourceLogs":[` + strings.ReplaceAll(each, log, `{"scopeLogs":[{"logRecords":[`+log+`]}]}`) + `]}`,
		"records of protobuf": inProtobuf(line, many, 1, 1),
		"scopes of protobuf":  inProtobuf(line, 1, many, 1),
		"lists of protobuf":   inProtobuf(line, 1, 1, many),
	} {
		choice, err := Choose("auto", "auto", []string{one}, Options{})
		if err != nil || choice.Format != "combined" || choice.Read == 0 || choice.Lines > most {
			t.Errorf("%s: %+v, %v", name, choice, err)
		}
	}
}

// Every format would scan all of a sample of long records, and some formats more than once.
func TestATrialReadsNoLongRecords(t *testing.T) {
	const line = `198.51.100.9 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "x`
	filled := func(bytes int) string { return line + strings.Repeat("x", bytes) + `"` }
	sample := []string{filled(600 << 10), filled(600 << 10)}
	for range 100 {
		sample = append(sample, filled(0), filled(100<<10))
	}
	for name, c := range map[string]struct {
		sample []string
		want   int
	}{"long ones": {sample, 36}, "a list": {[]string{inProtobuf(filled(600<<10), 2, 1, 1) + inProtobuf(filled(100<<10), 100, 1, 1)}, 18}} {
		choice, err := Choose("auto", "auto", c.sample, Options{})
		if err != nil || choice.Format != "combined" || choice.Lines > c.want+4 || choice.Lines < c.want {
			t.Errorf("%s: %+v, %v", name, choice, err)
		}
	}
	object := `{"time":1,"ip":"198.51.100.9","x":"` + strings.Repeat("x", 3<<20) + "\",\n\"y\":1}"
	if choice, err := Choose("auto", "auto", []string{object}, Options{}); err == nil {
		t.Errorf("%+v", choice)
	}
}

// A long record is read with its first log records only, and with what these share.
func TestATrialOfALongRecordScansItsBeginning(t *testing.T) {
	const line = `198.51.100.9 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "x"`
	log := `{"body":{"stringValue":` + quote(line) + `}}`
	shared := `{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]}`
	of := func(logs, scopes, resources int, log string) string {
		scope := `{"logRecords":[` + strings.Repeat(","+log, logs)[1:] + `],"scope":` + shared + `}`
		resource := `{"scopeLogs":[` + strings.Repeat(","+scope, scopes)[1:] + `],"resource":` + shared + `}`
		return `{"resourceLogs":[` + strings.Repeat(","+resource, resources)[1:] + `]}`
	}
	for name, record := range map[string]string{
		"log records":      of(12_000, 1, 1, log),
		"scopes":           of(1, 12_000, 1, log),
		"resources":        of(1, 1, 12_000, log),
		"a long one first": strings.Replace(of(12_000, 1, 1, log), `"logRecords":[{`, `"logRecords":[{"body":{"stringValue":"`+strings.Repeat("x", 2<<20)+`"}},{`, 1),
	} {
		short := shortOTLP(record)
		scan := newJSONScan()
		if len(short) > longOTLP+1000 || len(short) < longOTLP*9/10 || !scan.read(short) {
			t.Errorf("%s: %d of %d bytes, %.300s", name, len(short), len(record), short)
		}
		if choice, err := Choose("otlp", "combined", []string{short}, Options{}); err != nil {
			t.Errorf("%s: %+v, %v", name, choice, err)
		}
		if !strings.HasPrefix(short, `{"resourceLogs":[{"resource":`+shared+`,"scopeLogs":[{"scope":`+shared+`,"logRecords":[{`) {
			t.Errorf("%s has not what log records share: %.300s", name, short)
		}
	}
	wired := inProtobuf(line, 1, 1, 1)
	for name, record := range map[string]string{
		"log records": inProtobuf(line, 30_000, 1, 1), "scopes": inProtobuf(line, 1, 30_000, 1), "resources": inProtobuf(line, 1, 1, 30_000),
		"a long one first": inProtobuf(strings.Repeat("x", 2<<20), 1, 1, 1) + wired,
		"empty resources":  wired + strings.Repeat("\x0a\x00", 2<<20),
		"empty scopes":     wired + "\x0a\x80\x80\x80\x02" + strings.Repeat("\x12\x00", 2<<20),
	} {
		short := shortOTLP(record)
		if _, complete := countOTLP(short); !complete || len(short) > 2*longOTLP {
			t.Errorf("%s in protobuf: %d of %d bytes", name, len(short), len(record))
		}
		if choice, err := Choose("otlp", "auto", []string{short}, Options{}); err != nil || choice.Format != "combined" {
			t.Errorf("%s in protobuf: %+v, %v", name, choice, err)
		}
	}
	if shortOTLP(wired) != wired {
		t.Error("a short record in protobuf became another one")
	}
	if got := shortOTLP(of(10, 2, 2, log)); got != of(10, 2, 2, log) {
		t.Errorf("a short record became %q", got)
	}
	if text := strings.Repeat("x", 2<<20); shortOTLP(text) != text || CheckOTLP([]byte(text)) {
		t.Error("other text became another one")
	}
}

// inProtobuf is a line in OTLP's logs, so many times at each level.
func inProtobuf(line string, logs, scopes, resources int) string {
	part := func(tag byte, text string) string {
		length := []byte{tag}
		for n := len(text); ; n >>= 7 {
			if n < 0x80 {
				return string(append(length, byte(n))) + text
			}
			length = append(length, byte(n)|0x80)
		}
	}
	log := part(0x12, part(0x2a, part(0x0a, line)))
	scope := part(0x12, strings.Repeat(log, logs))
	return strings.Repeat(part(0x0a, strings.Repeat(scope, scopes)), resources)
}

// Each map in a body of OTLP in JSON is read again for its own pairs: deeper ones than in protobuf are left out.
func TestDeepOTLPInJSON(t *testing.T) {
	of := func(depth int) string {
		return `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":` +
			strings.Repeat(`{"kvlistValue":{"values":[{"key":"a","value":`, depth) + `{"stringValue":"x"}` + strings.Repeat(`}]}}`, depth) +
			`,"attributes":[{"key":"time","value":{"intValue":"1"}},{"key":"user","value":{"stringValue":"x"}}]}]}]}]}`
	}
	for _, depth := range []int{1, maxOTLPDepth, maxOTLPDepth + 2, 100} {
		var fields int
		newDecoder(t, "otlp", "json", Options{}).DecodeEach(of(depth), func(r *Request, err error) {
			if fields = len(r.Fields); err != nil || r.User != "x" {
				t.Errorf("%d: %+v, %v", depth, r, err)
			}
		})
		if want := oneIf(depth <= maxOTLPDepth); fields != want {
			t.Errorf("%d maps in each other: %d fields, want %d", depth, fields, want)
		}
	}
}

// A sender chooses the names of members. Each member would be compared with all names of its length.
func TestJSONNamesOfOneLength(t *testing.T) {
	p := newJSONParser("json", Options{})
	var r Request
	for i := range maxPaths {
		if err := p.Parse(fmt.Sprintf(`{"time":1,"user":"x","name%04d":"v%[1]d"}`, i), &r); err != nil || len(r.Fields) != 1 || r.Fields[0].Value != fmt.Sprintf("v%d", i) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if p.scan.root.named == nil {
		t.Error("names are found one by one")
	}
	for _, row := range p.scan.root.kids {
		for _, kid := range row {
			if p.scan.root.child(kid.name) != kid {
				t.Errorf("%q is not found", kid.name)
			}
		}
	}
}
