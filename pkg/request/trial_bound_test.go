package request

import (
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
	if got := shortOTLP(of(10, 2, 2, log)); got != of(10, 2, 2, log) {
		t.Errorf("a short record became %q", got)
	}
	if text := strings.Repeat("x", 2<<20); shortOTLP(text) != text {
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
