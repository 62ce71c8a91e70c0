package request

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// each reads a record, and returns the paths of its requests and the reasons of what could not be read.
func eachOf(t testing.TB, envelope, format string, o Options, record string) (all []string) {
	t.Helper()
	newDecoder(t, envelope, format, o).DecodeEach(record, func(r *Request, err error) {
		switch {
		case err == nil:
			all = append(all, r.IP.String())
		case err != ErrNoRequest:
			all = append(all, Reason(err))
		}
	})
	return all
}

// TestARecordOfSeveralLines: each line is a request, but not behind a text that is no line of the log: a program's
// message may have a client's text with newlines.
func TestARecordOfSeveralLines(t *testing.T) {
	other := strings.Replace(aliceLine, "203.0.113.7", "198.51.100.1", 1)
	object := func(ip string) string { return fmt.Sprintf(`{"time":"2026-03-01T10:15:30Z","ip":%q}`, ip) }
	for _, c := range []struct{ envelope, format, record, want string }{
		{"none", "combined", aliceLine + "\n" + other, "203.0.113.7 198.51.100.1"},
		{"none", "combined", "\n\n" + aliceLine + "\r\n\n" + other + "\r\n", "203.0.113.7 198.51.100.1"},
		{"none", "combined", aliceLine + "\n", "203.0.113.7"},
		{"none", "combined", aliceLine + "\nnot a line\n" + other, "203.0.113.7 format 198.51.100.1"},
		{"none", "combined", "2026/03/01 10:15:30 [error] 7#0: *1 x\n" + other, "address"},
		{"none", "combined-plus", aliceLine + "\n" + other, "203.0.113.7 198.51.100.1"},
		{"none", "combined", "# a comment\n" + other, "198.51.100.1"},
		{"syslog", "combined", "Mar  1 12:00:00 web1 nginx: " + aliceLine + "\nMar  1 12:00:00 web1 nginx: " + other + "\n", "203.0.113.7 198.51.100.1"},
		{"syslog", "combined", "Mar  1 12:00:00 web1 nginx: " + aliceLine + "\n" + other, "203.0.113.7 envelope"},
		{"none", "json", object("203.0.113.7") + "\n" + object("198.51.100.1"), "203.0.113.7 198.51.100.1"},
		{"none", "json", strings.ReplaceAll(object("203.0.113.7"), ",", ",\n "), "203.0.113.7"},
		{"none", "json", "message:\n" + object("203.0.113.7"), "json"},
		{"filebeat", "combined", wrapped(aliceLine)["filebeat"] + "\n" + wrapped(other)["filebeat"], "203.0.113.7 198.51.100.1"},
	} {
		if got := strings.Join(eachOf(t, c.envelope, c.format, Options{}, c.record), " "); got != c.want {
			t.Errorf("%s in %s: %q gives %s, want %s", c.format, c.envelope, c.record, got, c.want)
		}
	}

	// The time grows with the number of blank lines, not with its square.
	blank := strings.Repeat("\n", 4<<20)
	if got := eachOf(t, "none", "combined", Options{}, blank+aliceLine+blank+other+blank); len(got) != 2 || got[1] != "198.51.100.1" {
		t.Errorf("behind many blank lines: %s", got)
	}

	for _, record := range []string{aliceLine + "\n" + other, wrapped(aliceLine)["syslog-ng"] + "\n" + wrapped(other)["syslog-ng"]} {
		if choice, err := Detect([]string{record}, Options{}); err != nil || choice.Format != "combined" || choice.Read != 2 {
			t.Errorf("%q: chose %s, %v", record, choice, err)
		}
	}
}

// TestTheLineHasAKey: the key of the line in a record of JSON can be named.
func TestTheLineHasAKey(t *testing.T) {
	quoted, _ := json.Marshal(aliceLine)
	record := fmt.Sprintf(`{"@timestamp":"2026-03-01T12:00:00Z","message":"text","payload":{"text":%s},"app":"shop"}`, quoted)
	o := Options{Line: "payload.text"}
	for _, envelope := range []string{"none", "fluentbit", "vector"} {
		d := newDecoder(t, envelope, "combined", o)
		var r Request
		if err := d.Decode(record, &r); err != nil || r.User != "alice" {
			t.Errorf("%s: %v, %v", envelope, r, err)
		}
		if app, _ := d.Envelope("app"); app != "shop" {
			t.Errorf("%s: the app is %q", envelope, app)
		}
		if err := d.Decode(`{"payload":{}}`, &r); Reason(err) != "envelope" {
			t.Errorf("%s: %v", envelope, err)
		}
	}
	if choice, err := Detect([]string{record, record}, o); err != nil || choice.Envelope != "none" || choice.Format != "combined" {
		t.Errorf("chose %s, %v", choice, err)
	}
	inner := `{"payload":{"text":"{\"time\":\"2026-03-01T12:00:00Z\",\"ip\":\"203.0.113.7\"}"}}`
	if got := eachOf(t, "none", "json", o, inner); len(got) != 1 || got[0] != "203.0.113.7" {
		t.Error(got)
	}
	for _, bad := range []struct{ envelope, line string }{{"otlp", "a"}, {"syslog", "a"}, {"cri", "a"}, {"none", "a..b"}, {"none", "a b"}, {"none", strings.Repeat("a", 300)}} {
		if _, err := NewDecoder(bad.envelope, "combined", Options{Line: bad.line}); err == nil {
			t.Errorf("line %q is accepted in %s", bad.line, bad.envelope)
		}
	}
}

// TestRecordsThatNoOneReads: the error names the setting of the sender.
func TestRecordsThatNoOneReads(t *testing.T) {
	for record, want := range map[string]string{
		"\x1f\x8b\x08\x00\x00\x00\x00":                        "compression.type",
		"\x00\x00\x00\x00\x07\x02\x02ab":                      "schemas.enable=false",
		"\x92\xcb\x41\xd9\x00\x00\x00\x81\xa3log\xa4text":     "format json in Fluent Bit",
		"\x0a\x07\x12\x05\xff\xfe\x01\x02\x03 is no text":     "otlp_json",
		"\x28\xb5\x2f\xfd\x04\x00\x19\x00\x00abc\x9d\x2b\x01": "compression.type",
	} {
		_, err := Detect([]string{record, record}, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", record, err)
		}
	}
	if _, err := Detect([]string{"no line of any log", "nor this"}, Options{}); err == nil || strings.Contains(err.Error(), "the records are") {
		t.Error(err)
	}
}
