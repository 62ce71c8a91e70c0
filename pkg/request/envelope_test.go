package request

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const aliceLine = `203.0.113.7 - alice [01/Mar/2026:11:15:30 +0100] "GET /api/items?page=2 HTTP/1.1" 200 5316 "https://shop.example/start" "curl/8.5.0"`

// wrapped is a line in each of the envelopes; CRI cannot contain every line.
func wrapped(line string) map[string]string {
	quoted, _ := json.Marshal(line)
	withEnd, _ := json.Marshal(line + "\n")
	return map[string]string{
		"none":      line,
		"filebeat":  fmt.Sprintf(`{"@timestamp":"2026-03-01T12:00:00.000Z","agent":{"type":"filebeat"},"message":%s}`, quoted),
		"logstash":  fmt.Sprintf(`{"@version":"1","@timestamp":"2026-03-01T12:00:00.000Z","message":%s}`, quoted),
		"vector":    fmt.Sprintf(`{"source_type":"file","timestamp":"2026-03-01T12:00:00Z","message":%s}`, quoted),
		"fluentbit": fmt.Sprintf(`{"@timestamp":1772366400.5,"log":%s}`, quoted),
		"docker":    fmt.Sprintf(`{"log":%s,"stream":"stdout","time":"2026-03-01T12:00:00Z"}`, withEnd),
		"cri":       "2026-03-01T12:00:00.1Z stdout F " + line,
		"quoted":    string(quoted),
		"syslog-ng": fmt.Sprintf(`{"PROGRAM":"nginx","PRIORITY":"notice","MESSAGE":%s,"ISODATE":"2026-03-01T12:00:00+00:00","HOST":"web1"}`, quoted),
		"syslog":    "Mar  1 12:00:00 web1 nginx[2869]: " + line,
		"otlp":      fmt.Sprintf(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1","body":{"stringValue":%s}}]}]}]}`, quoted),
	}
}

func newDecoder(t testing.TB, envelope, format string, o Options) *Decoder {
	t.Helper()
	d, err := NewDecoder(envelope, format, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestEnvelopeOpens: the line gives the same as without an envelope; its own time counts.
func TestEnvelopeOpens(t *testing.T) {
	records := wrapped(aliceLine)
	if len(records) != len(Envelopes()) {
		t.Errorf("%d envelopes are tested, there are %d", len(records), len(Envelopes()))
	}
	for envelope, record := range records {
		var r Request
		if err := newDecoder(t, envelope, "combined", Options{}).Decode(record, &r); err != nil {
			t.Errorf("%s: %v", envelope, err)
		}
		if r.UnixMilli != 1772360130000 || r.User != "alice" || r.Path != "/api/items" {
			t.Errorf("%s: %s", envelope, describe(&r, nil))
		}
	}
}

func TestEnvelopeAllocatesNothing(t *testing.T) {
	for envelope, record := range wrapped(aliceLine) {
		d := newDecoder(t, envelope, "combined", Options{})
		var r Request
		var failure error
		count := func(_ *Request, err error) { failure = err }
		if n := testing.AllocsPerRun(100, func() { failure = d.Decode(record, &r) }); n != 0 || failure != nil {
			t.Errorf("%s: %v allocations, %v", envelope, n, failure)
		}
		if n := testing.AllocsPerRun(100, func() { d.DecodeEach(record, count) }); n != 0 || failure != nil {
			t.Errorf("%s: %v allocations for each, %v", envelope, n, failure)
		}
	}
}

// TestEnvelopeTime: the envelope's time is used only when the fields have none, never for one that cannot be read.
func TestEnvelopeTime(t *testing.T) {
	const read = 1772366400000 // 2026-03-01T12:00:00Z
	for line, want := range map[string]int64{
		`{"user":"x","path":"/"}`:                                  1772366400000,
		`{"user":"x","path":"/","time":"2026-03-01T10:15:30Z"}`:    1772360130000,
		`{"user":"x","path":"/","time":"half past ten"}`:           -1,
		`{"user":"x","path":"/","time":"-"}`:                       read,
		`{"user":"x","path":"/","time":"2126-03-01T10:15:30Z"}`:    -1,
		`{"user":"x","path":"/","time":"1926-03-01T10:15:30Z"}`:    -1,
		`{"remark":"no request at all, so the time is no matter"}`: -2,
	} {
		for envelope, record := range wrapped(line) {
			record = strings.Replace(record, `"timeUnixNano":"1"`, `"timeUnixNano":"0","observedTimeUnixNano":"1772366400000000000"`, 1)
			var r Request
			err := newDecoder(t, envelope, "json", Options{}).Decode(record, &r)
			switch {
			case want == -2:
				if Reason(err) != "format" {
					t.Errorf("%s in %s: %v", line, envelope, err)
				}
			case want == -1 || (envelope == "none" || envelope == "syslog" || envelope == "quoted") && want == read: // none has a year
				if Reason(err) != "time" {
					t.Errorf("%s in %s: %v", line, envelope, err)
				}
			case err != nil || r.UnixMilli/1000 != want/1000:
				t.Errorf("%s in %s: %d, %v", line, envelope, r.UnixMilli, err)
			}
		}
	}
	// An envelope's time that cannot be read leaves the request without one.
	var r Request
	err := newDecoder(t, "filebeat", "json", Options{}).Decode(`{"@timestamp":"-","message":"{\"user\":\"x\"}"}`, &r)
	if Reason(err) != "time" {
		t.Error(err)
	}
}

// TestEnvelopeFields: with a format of JSON, a line that is an object is preferred to the fields around it.
func TestEnvelopeFields(t *testing.T) {
	const record = `{"@timestamp":"2026-03-01T12:00:00Z","user":"around","message":%s}`
	for message, want := range map[string]string{`"{\"user\":\"within\"}"`: "within", `" {\"user\":\"within\"}"`: "within", `"text"`: "around", `null`: "around", `5`: "around"} {
		var r Request
		if err := newDecoder(t, "filebeat", "json", Options{}).Decode(fmt.Sprintf(record, message), &r); err != nil || r.User != want {
			t.Errorf("%s: %q, %v", message, r.User, err)
		}
	}
}

func TestEnvelopeUnread(t *testing.T) {
	for envelope, records := range map[string]map[string]string{
		"filebeat": {"text": "json", "{}": "envelope", `{"message":5}`: "envelope", `{"message":""}`: "envelope", "": "", " ": "",
			`{"message":" "}`: ""},
		"docker": {"text": "json", "{}": "envelope", `{"log":7}`: "envelope"},
		"cri": {"text": "envelope", "2026-03-01T12:00:00Z stdout X line": "envelope", "2026-03-01T12:00:00Z stdin F line": "envelope",
			"yesterday stdout F line": "envelope", "2026-03-01T12:00:00Z stdout F": "envelope"},
		"otlp": {"text": "json", "{}": "envelope", `{"resourceLogs":[]}`: "", `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}]}]}]}`: "envelope",
			`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{},{}]}]}]}`: "envelope", `{"resourceLogs":7}`: ""},
	} {
		for record, reason := range records {
			var r Request
			err := newDecoder(t, envelope, "combined", Options{}).Decode(record, &r)
			if err == nil || Reason(err) != reason || reason == "" && err != ErrNoRequest {
				t.Errorf("%s: %s: %v", envelope, record, err)
			}
		}
	}
}

// TestEnvelopeParts: a line in parts is read at its last part, each stream of a container separately.
func TestEnvelopeParts(t *testing.T) {
	for envelope, form := range map[string][2]string{
		"docker": {`{"log":%q,"stream":%q,"time":"2026-03-01T12:00:00Z"}`, `{"log":"%s\n","stream":%q,"time":"2026-03-01T12:00:00Z"}`},
		"cri":    {"2026-03-01T12:00:00Z %[2]s P %[1]s", "2026-03-01T12:00:00Z %[2]s F %[1]s"},
	} {
		d := newDecoder(t, envelope, "json", Options{})
		var r Request
		part := func(text, stream string, last int) error {
			return d.Decode(fmt.Sprintf(form[last], text, stream), &r)
		}
		for _, stream := range []string{"stdout", "stderr"} {
			if err := part(`{"user"`, stream, 0); err != ErrNoRequest || !d.Pending() {
				t.Error(envelope, err, d.Pending())
			}
		}
		if err := d.Decode(fmt.Sprintf(form[0], `:`, "stdout"), &r); err != ErrNoRequest {
			t.Error(envelope, err)
		}
		ends := map[string]string{"docker": `7}`, "cri": `7}`}
		if err := part(ends[envelope], "stdout", 1); err != nil || r.User != "7" || !d.Pending() {
			t.Error(envelope, err, r.User, d.Pending())
		}
		if err := part(`:8}`, "stderr", 1); err != nil || r.User != "8" || d.Pending() {
			t.Error(envelope, err, r.User, d.Pending())
		}
		checkTooLong(t, d, form)
	}
}

// checkTooLong: a line that grows beyond its bound is unread once, and the next one is read.
func checkTooLong(t *testing.T, d *Decoder, form [2]string) {
	var r Request
	piece := strings.Repeat("a", maxLineBytes/4)
	for range 6 {
		if err := d.Decode(fmt.Sprintf(form[0], piece, "stdout"), &r); err != ErrNoRequest {
			t.Fatal(err)
		}
	}
	if cap(d.parts[0].text) > 2*maxLineBytes {
		t.Errorf("%d bytes are kept", cap(d.parts[0].text))
	}
	if err := d.Decode(fmt.Sprintf(form[1], "end", "stdout"), &r); Reason(err) != "long" || d.Pending() {
		t.Error(err)
	}
	if err := d.Decode(fmt.Sprintf(form[1], "17", "stdout"), &r); Reason(err) != "json" {
		t.Error(err)
	}
}

// TestEnvelopePartsShareMemory: of many lines in parts, more than 128 KiB each is kept only as far as the shared memory
// goes. The others are read by their beginning, unless the time or the client comes later.
func TestEnvelopePartsShareMemory(t *testing.T) {
	const most, lines = 8 << 20, 40
	shared := NewMemory(most)
	begins, _, _ := strings.Cut(aliceLine, " HTTP/1.1")
	kept, read, long := 0, 0, 0
	var decoders []*Decoder
	part := func(d *Decoder, text, tag string) (*Request, error) {
		var r Request
		err := d.Decode("2026-03-01T12:00:00Z stdout "+tag+" "+text, &r)
		return &r, err
	}
	for i := range lines {
		d := newDecoder(t, "cri", map[bool]string{true: "combined", false: "json"}[i%2 == 0], Options{})
		d.Share(shared)
		decoders = append(decoders, d)
		if i%2 == 0 {
			_, _ = part(d, begins+"?", "P")
		} else {
			_, _ = part(d, `{"path":"/`, "P")
		}
		for range 100 {
			if _, err := part(d, strings.Repeat("x", 16<<10), "P"); err != ErrNoRequest {
				t.Fatal(err)
			}
		}
	}
	for _, d := range decoders {
		kept += cap(d.parts[0].text)
	}
	if kept > most+lines*ownPartsBytes {
		t.Errorf("%d bytes are kept of all lines", kept)
	}
	for i, d := range decoders {
		end := ` HTTP/1.1" 200 2 "-" "-"`
		if i%2 == 1 {
			end = `","time":"2026-03-01T12:00:00Z","ip":"192.0.2.1"}`
		}
		r, err := part(d, end, "F")
		switch {
		case err == nil && r.IP.IsValid() && r.UnixMilli > 0:
			read++
		case Reason(err) == "long" && i%2 == 1:
			long++
		default:
			t.Errorf("line %d: %v", i, err)
		}
	}
	if read <= lines/2 || long == 0 || read+long != lines {
		t.Errorf("%d lines are read, %d are long", read, long)
	}

	// All memory is back once the lines are read, or the decoders are not used any more.
	for _, d := range decoders {
		d.DecodeEach("2026-03-01T12:00:00Z stdout F short", func(*Request, error) {})
	}
	for range 20 {
		_, _ = part(decoders[0], strings.Repeat("x", 16<<10), "P")
	}
	decoders[0].Drop()
	if got := shared.left.Load(); got != most || decoders[0].Pending() {
		t.Errorf("%d bytes are left of %d", got, most)
	}
}

// TestEnvelopeLookup: fields of the record are found by their dotted names, from the first question on, and the answers
// stay valid until the next record.
func TestEnvelopeLookup(t *testing.T) {
	const around = `"kubernetes":{"labels":{"app":"a\u0062c"},"labels.tier":"web"},"n":5,"list":["x","y"],"none":null}`
	for name, d := range map[string]*Decoder{
		"line":   newDecoder(t, "fluentbit", "combined", Options{}),
		"fields": newDecoder(t, "fluentbit", "json", Options{}),
		"wanted": newDecoder(t, "fluentbit", "json", Options{}),
		"none":   newDecoder(t, "none", "json", Options{}),
	} {
		if name == "wanted" {
			d.Want([]string{"n"})
		}
		record := `{"@timestamp":1772366400.5,"user":"x",` + around
		if name == "line" {
			quoted, _ := json.Marshal(aliceLine)
			record = `{"log":` + string(quoted) + `,` + around
		}
		for range 2 {
			var r Request
			if err := d.Decode(record, &r); err != nil {
				t.Fatal(name, err)
			}
			app, _ := d.Envelope("kubernetes.labels.app")
			tier, _ := d.Envelope("kubernetes.labels.tier")
			number, _ := d.Envelope("n")
			list, _ := d.Envelope("list")
			_, none := d.Envelope("none")
			_, missing := d.Envelope("kubernetes.labels.missing")
			if app != "abc" || tier != "web" || number != "5" || list != "x, y" || none || missing {
				t.Error(name, app, tier, number, list, none, missing)
			}
			if r.User == "" {
				t.Error(name, "the request has gone")
			}
		}
	}
	if _, ok := newDecoder(t, "none", "combined", Options{}).Envelope("a"); ok {
		t.Error("a line has fields")
	}
}

// TestEnvelopeLookupForgets: a record that cannot be read, or is blank, returns none of the fields of the one before.
func TestEnvelopeLookupForgets(t *testing.T) {
	for _, envelope := range []string{"cri", "docker", "otlp", "none"} {
		d := newDecoder(t, envelope, "json", Options{})
		record := strings.Replace(wrapped(`{"time":1,"user":"x","stream":"stdout"}`)[envelope], `"timeUnixNano"`,
			`"attributes":[{"key":"stream","value":{"stringValue":"stdout"}}],"timeUnixNano"`, 1)
		for _, next := range []string{"", "nothing of the kind", "{}"} {
			d.DecodeEach(record, func(*Request, error) {})
			if stream, _ := d.Envelope("stream"); stream != "stdout" {
				t.Errorf("%s: stream %q", envelope, stream)
			}
			d.DecodeEach(next, func(*Request, error) {})
			if stream, ok := d.Envelope("stream"); ok {
				t.Errorf("%s: %q still has the stream %s", envelope, next, stream)
			}
		}
	}
}

// TestEnvelopeLookupIsBounded: however many names are asked for, no more than maxPaths are kept, and all are answered.
func TestEnvelopeLookupIsBounded(t *testing.T) {
	d := newDecoder(t, "filebeat", "combined", Options{})
	for i := range 2 * maxPaths {
		name := fmt.Sprintf("k%d", i)
		var r Request
		_ = d.Decode(fmt.Sprintf(`{"message":"x",%q:"v"}`, name), &r)
		if v, ok := d.Envelope(name); v != "v" || !ok {
			t.Fatal(name, v, ok)
		}
	}
	if len(d.scan.values) > maxPaths {
		t.Errorf("%d paths", len(d.scan.values))
	}
}

// TestDecodeSeveral: a record with several requests is for DecodeEach.
func TestDecodeSeveral(t *testing.T) {
	one := `{"body":{"stringValue":"` + strings.ReplaceAll(aliceLine, `"`, `\"`) + `"}}`
	record := `{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + one + `,` + one + `]}]}]}`
	d := newDecoder(t, "otlp", "combined", Options{})
	var r Request
	if err := d.Decode(record, &r); Reason(err) != "envelope" {
		t.Error(err)
	}
	count := 0
	d.DecodeEach(record, func(r *Request, err error) {
		if err == nil && r.User == "alice" {
			count++
		}
	})
	if count != 2 {
		t.Errorf("%d requests", count)
	}
}

func TestNewDecoderRefuses(t *testing.T) {
	for _, c := range []struct{ envelope, format, want string }{
		{"auto", "combined", "chosen from the first lines"},
		{"none", " auto ", "chosen from the first lines"},
		{"beats", "combined", `unknown envelope "beats"`},
		{"filebeat", "combinde", `combinde`},
	} {
		if _, err := NewDecoder(c.envelope, c.format, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v", c.envelope, c.format, err)
		}
	}
}
