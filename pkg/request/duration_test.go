package request

import (
	"fmt"
	"testing"
	"time"
)

// begins is the beginning of the requests in these tests.
const begins = "2026-05-04T06:25:06Z"

// Each format with a duration, held open for 20 minutes.
var heldLines = []struct{ format, line string }{
	{"haproxy", `203.0.113.7:333 [04/May/2026:06:25:06.000] f b/s 1/0/3/6/1200000 200 27 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`},
	// With option logasap, and of a request that had no answer.
	{"haproxy", `203.0.113.7:333 [04/May/2026:06:25:06.000] f b/s 1/0/3/6/+1200000 200 +27 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`},
	{"haproxy", `203.0.113.7:333 [04/May/2026:06:25:06.000] f b/<NOSRV> -1/-1/-1/-1/1200000 408 212 - - cR-- 1/1/0/0/0 0/0 "<BADREQ>"`},
	// A line with more quotes is read from its ends.
	{"haproxy", `203.0.113.7:333 [04/May/2026:06:25:06.000] f b/s 1/0/3/6/1200000 200 27 a"b - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`},
	{"istio", `[2026-05-04T06:25:06.000Z] "GET / HTTP/1.1" 200 - via_upstream - "-" 0 135 1200000 4 "-" "u" "i" "h" "127.0.0.1:80" c 127.0.0.1:41854 10.44.1.27:80 203.0.113.7:37652 s r`},
	{"envoy-json", `{"start_time":"2026-05-04T06:25:06.000Z","duration":1200000,"method":"GET","path":"/","response_code":200,"downstream_remote_address":"203.0.113.7:1"}`},
	{"envoy-json", `{"start_time":"2026-05-04T06:25:06.000Z","duration":"1200000","method":"GET","path":"/","response_code":200,"downstream_remote_address":"203.0.113.7:1"}`},
	{"json", `{"start_time":"2026-05-04T06:25:06.000Z","duration":1.2e6,"method":"GET","path":"/","response_code":200,"downstream_remote_address":"203.0.113.7:1"}`},
	{"traefik-json", `{"StartUTC":"2026-05-04T06:25:06Z","Duration":1200000999999,"ClientHost":"203.0.113.7","RequestMethod":"GET","RequestPath":"/","DownstreamStatus":200}`},
	{"traefik-json", `{"StartLocal":"2026-05-04T08:25:06+02:00","Duration":1.2e+12,"ClientHost":"203.0.113.7","RequestMethod":"GET","RequestPath":"/","DownstreamStatus":200}`},
	{"gcp-json", `{"timestamp":"2026-05-04T06:25:06Z","receiveTimestamp":"2026-05-04T06:45:07Z","httpRequest":{"latency":"1200.000999s","remoteIp":"203.0.113.7","requestMethod":"GET","requestUrl":"http://h/","status":200}}`},
	{"cloudflare-json", `{"EdgeStartTimestamp":"2026-05-04T06:25:06Z","EdgeEndTimestamp":"2026-05-04T06:45:06Z","ClientIP":"203.0.113.7","ClientRequestMethod":"GET","ClientRequestURI":"/","EdgeResponseStatus":200}`},
	{"ecs", `{"@timestamp":"2026-05-04T06:25:06Z","event":{"end":"2026-05-04T06:45:06Z"},"source":{"ip":"203.0.113.7"},"http":{"request":{"method":"GET"}}}`},
	{"elb", `2026-05-04T06:25:06.000000Z lb 203.0.113.7:2817 10.0.0.1:80 1.5 1198.000073 0.5 200 200 0 29 "GET http://h:80/ HTTP/1.1" "curl/7.38.0" - -`},
	{"s3", `o b [04/May/2026:06:25:06 +0000] 203.0.113.7 - ID REST.GET.OBJECT k "GET /b/k HTTP/1.1" 200 - 297 297 1200000 38 "-" "curl" -`},
	{`%h %l %u %t "%r" %>s %b %D`, `203.0.113.7 - - [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1" 200 5 1200000999`},
	{`%D %h %t "%r"`, `1200000999 203.0.113.7 [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1"`},
	{`%h %t "%r" %T`, `203.0.113.7 [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1" 1200`},
	{`%h %{msec}t "%r" %{ms}T %{s}T`, `203.0.113.7 1777875906000 "GET / HTTP/1.1" 1200000 1199`},
	{`%h %{begin:%F %T}t "%r" %T %{us}T`, `203.0.113.7 2026-05-04 06:25:06 "GET / HTTP/1.1" 1199 1200000999`},
	// The end is in the line already.
	{`%h %{end}t "%r" %D`, `203.0.113.7 [04/May/2026:06:45:06 +0000] "GET / HTTP/1.1" 1200000999`},
	{`%h %{end:%d/%b/%Y:%T %z}t "%r" %T`, `203.0.113.7 04/May/2026:06:45:06 +0000 "GET / HTTP/1.1" 1200`},
	{`%h %t %{end:msec}t "%r" %T`, `203.0.113.7 [04/May/2026:06:25:06 +0000] 1777877106000 "GET / HTTP/1.1" 1200`},
	{`%h %{msec}t %{end}t "%r" %T`, `203.0.113.7 1777875906000 [04/May/2026:06:45:06 +0000] "GET / HTTP/1.1" 1200`},
	{"combined", `203.0.113.7 - - [04/May/2026:06:45:06 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`},
	{"alb", `http 2026-05-04T06:45:06.000000Z app/lb/50dc 203.0.113.7:2817 - 0.1 1199 0.1 200 - 34 366 "GET http://h:80/ HTTP/1.1" "-" - - arn:aws:x "Root=1-2"`},
	{"squid", `1777877106.000 1200000 203.0.113.7 TCP_MISS/200 411 GET http://h/ - DIRECT/125.23.7.23 text/plain`},
	{"caddy", `{"ts":1777877106,"duration":1200,"request":{"client_ip":"203.0.113.7","method":"GET","uri":"/"},"status":200}`},
	{"nginx-json", `{"time_iso8601":"2026-05-04T06:45:06Z","remote_addr":"203.0.113.7","request":"GET / HTTP/1.1","request_time":"1200.000","duration":1200}`},
	{"$remote_addr [$time_local] \"$request\" $request_time", `203.0.113.7 [04/May/2026:06:45:06 +0000] "GET / HTTP/1.1" 1200.000`},
	{"iis", `2026-05-04 06:45:06 10.0.0.1 GET / - 80 - 203.0.113.7 curl - 200 0 0 1200000`},
}

// A request is counted at its end.
func TestHeldRequestsCountAtTheirEnd(t *testing.T) {
	for _, test := range heldLines {
		parser := mustParser(t, test.format, Options{})
		for _, names := range [][]string{nil, {}, {"timers", "duration"}} {
			parser.Want(names)
			r := parsed(t, parser, test.line)
			if want := milli(begins) + 1_200_000; r.UnixMilli != want || r.TookMilli != 0 && r.TookMilli != 1_200_000 || r.IP.String() != "203.0.113.7" {
				t.Errorf("%s: %s: %s, took %d, want %s", test.format, test.line, time.UnixMilli(r.UnixMilli).UTC(), r.TookMilli, time.UnixMilli(want).UTC())
			}
		}
		again := new(Request)
		if n := testing.AllocsPerRun(10, func() { _ = parser.Parse(test.line, again) }); n > 0 {
			t.Errorf("%s: %v allocations", test.line, n)
		}
	}
}

// A duration that is none leaves the beginning, and the line is read.
func TestDurationsThatAreNone(t *testing.T) {
	for _, took := range []string{"-", "-1", "-1200000", "+-1", "x", "0", "", "1e", "e3", "1e+-3", "1e100", "0x10", "2592000001", "18446744073709551616", "99999999999999999999999999", "NaN", "1e9999999999999999999999", "1.5.5", ".5"} {
		for format, line := range map[string]string{
			"haproxy":          `203.0.113.7:333 [04/May/2026:06:25:06.000] f b/s 1/0/3/6/` + took + ` 200 27 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`,
			"envoy-json":       `{"start_time":"2026-05-04T06:25:06Z","duration":"` + took + `","response_code":200,"downstream_remote_address":"203.0.113.7:1"}`,
			"%h %t \"%{ms}T\"": `203.0.113.7 [04/May/2026:06:25:06 +0000] "` + took + `"`,
		} {
			r := parsed(t, mustParser(t, format, Options{}), line)
			if r.UnixMilli != milli(begins) || r.TookMilli != 0 || r.IP.String() != "203.0.113.7" {
				t.Errorf("%s: %s, took %d", line, time.UnixMilli(r.UnixMilli).UTC(), r.TookMilli)
			}
		}
	}
	for _, value := range []string{"null", "true", "[1,2]", `{"a":1}`, "-5", "-0.5"} {
		r := parsed(t, mustParser(t, "envoy-json", Options{}), `{"start_time":"2026-05-04T06:25:06Z","duration":`+value+`,"response_code":200,"downstream_remote_address":"203.0.113.7:1"}`)
		if r.UnixMilli != milli(begins) || r.TookMilli != 0 {
			t.Errorf("%s: took %d", value, r.TookMilli)
		}
	}
	// The end would be out of range.
	r := parsed(t, mustParser(t, "envoy-json", Options{}), `{"start_time":"2109-05-15T07:35:00Z","duration":2592000000,"response_code":200,"downstream_remote_address":"203.0.113.7:1"}`)
	if r.UnixMilli != milli("2109-05-15T07:35:00Z") || r.TookMilli != 0 {
		t.Errorf("%d, took %d", r.UnixMilli, r.TookMilli)
	}
}

// Of Google Cloud, a request had ended when its entry was received. An entry that has only that time has the end.
func TestDurationDoesNotPassTheEntry(t *testing.T) {
	const record = `{"timestamp":"%s","receiveTimestamp":"%s","httpRequest":{"latency":"%s","remoteIp":"203.0.113.7","requestMethod":"GET","requestUrl":"http://h/","status":200}}`
	for _, test := range []struct{ at, received, latency, want string }{
		{begins, "2026-05-04T06:45:06Z", "3600s", "2026-05-04T06:45:06Z"},
		{begins, "2026-05-04T06:45:06Z", "60s", "2026-05-04T06:26:06Z"},
		{begins, "2026-05-04T06:25:05Z", "60s", "2026-05-04T06:26:06Z"},
		{begins, "", "60s", "2026-05-04T06:26:06Z"},
		{begins, "x", "60s", "2026-05-04T06:26:06Z"},
		{begins, "2026-05-04T06:45:06Z", "60", "2026-05-04T06:26:06Z"},
		{begins, "2026-05-04T06:45:06Z", "ss", begins},
		{"", begins, "60s", begins},
	} {
		r := parsed(t, mustParser(t, "gcp-json", Options{}), fmt.Sprintf(record, test.at, test.received, test.latency))
		if r.UnixMilli != milli(test.want) {
			t.Errorf("%+v: %s", test, time.UnixMilli(r.UnixMilli).UTC())
		}
	}
}

// A time that the options take from elsewhere is used as it is. A duration that they rename stays one.
func TestDurationWithOptions(t *testing.T) {
	const traefik = `{"StartUTC":"2026-05-04T06:25:06Z","time":"2026-05-04T06:45:06Z","Duration":1200000000000,"ClientHost":"203.0.113.7","RequestMethod":"GET"}`
	const haproxy = `203.0.113.7:333 [04/May/2026:06:25:06.000] f b/s 1/0/3/6/1200000 200 27 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`
	for _, test := range []struct {
		format, line string
		fields       map[string]string
	}{
		{"traefik-json", traefik, map[string]string{"time": "time"}},
		{"traefik-json", traefik, map[string]string{"time": "StartUTC"}},
		{"traefik-json", traefik, map[string]string{"took": "Duration"}},
		{"haproxy", haproxy, map[string]string{"waited": "timers"}},
		{"haproxy", haproxy, map[string]string{"time": "accept_date"}},
		{`%h %t %{X-End}o %D`, `203.0.113.7 [04/May/2026:06:25:06 +0000] 1777877106 1200000000`, map[string]string{"time": "sent_http_x_end"}},
	} {
		r := parsed(t, mustParser(t, test.format, Options{Fields: test.fields}), test.line)
		if r.UnixMilli != milli(begins)+1_200_000 {
			t.Errorf("%s %v: %s", test.format, test.fields, time.UnixMilli(r.UnixMilli).UTC())
		}
		for name := range test.fields {
			if value, ok := r.Field(name); !ok && name != "time" {
				t.Errorf("%s: %s is %q", test.format, name, value)
			}
		}
	}
}

// Envoy's logger for OpenTelemetry writes the beginning as the record's own time. With the attributes of envoy-json, the
// end is known.
func TestDurationInAttributes(t *testing.T) {
	const record = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1777875906000000000","attributes":[{"key":"start_time","value":{"stringValue":"2026-05-04T06:25:06Z"}},` +
		`{"key":"duration","value":{"stringValue":"1200000"}},{"key":"response_code","value":{"stringValue":"200"}},{"key":"downstream_remote_address","value":{"stringValue":"203.0.113.7:1"}}]}]}]}]}`
	for _, format := range []string{"envoy-json", "json"} {
		var r Request
		if err := newDecoder(t, "otlp", format, Options{}).Decode(record, &r); err != nil || r.UnixMilli != milli(begins)+1_200_000 {
			t.Errorf("%s: %s, %v", format, time.UnixMilli(r.UnixMilli).UTC(), err)
		}
	}
}

// A header that looks like a duration is none, wherever a client can write one.
func TestDurationCannotBeForged(t *testing.T) {
	for format, line := range map[string]string{
		"traefik-json": `{"StartUTC":"2026-05-04T06:25:06Z","request_Duration":9000000000,"request_X":{"Duration":9000000000},"ClientHost":"203.0.113.7","RequestMethod":"GET","RequestPath":"/\",\"Duration\":9000000000,\""}`,
		"envoy-json":   `{"start_time":"2026-05-04T06:25:06Z","headers":{"duration":9000},"downstream_remote_address":"203.0.113.7:1","response_code":200,"path":"/\",\"duration\":9000,\"x"}`,
		"haproxy":      `203.0.113.7:333 [04/May/2026:06:25:06.000] f b/s 1/0/3/6/0 200 27 x=1/1/1/1/9000 - ---- 1/1/1/1/9000 0/0 "GET /1/1/1/1/9000 200 HTTP/1.1"`,
		"istio":        `[2026-05-04T06:25:06.000Z] "GET /"-"?"0/135/9000 HTTP/1.1" 200 - via_upstream - "-" 0 135 0 4 "-" "0 135 9000" "0 135 9000 4" "h" "127.0.0.1:80" c 127.0.0.1:41854 10.44.1.27:80 203.0.113.7:37652 s r`,
		`%h %u %t "%r" %>s "%{Referer}i" %D "%{User-Agent}i"`: `203.0.113.7 a 9000 [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1\" 200 \"-\" 9000000 \"" 200 "x\" 9000000 \"" 0 "9000000"`,
	} {
		r := parsed(t, mustParser(t, format, Options{}), line)
		if r.UnixMilli != milli(begins) || r.TookMilli != 0 || r.IP.String() != "203.0.113.7" {
			t.Errorf("%s: %s, took %d", line, time.UnixMilli(r.UnixMilli).UTC(), r.TookMilli)
		}
	}
}

func TestDurationUnits(t *testing.T) {
	for _, test := range []struct {
		unit durationUnit
		text string
		want int64
	}{
		{inSeconds, "1", 1000}, {inSeconds, "0.0019", 1}, {inSeconds, "1.5", 1500}, {inSeconds, "2592000", maxTook}, {inSeconds, "2592000.001", 0}, {inSeconds, "1e-3", 1},
		{inMillis, "1200000", 1_200_000}, {inMillis, "1.9", 1}, {inMillis, "1.2e6", 1_200_000}, {inMillis, "12E5", 1_200_000}, {inMillis, "1.2e+06", 1_200_000}, {inMillis, "0007", 7},
		{inMicros, "999", 0}, {inMicros, "1999", 1}, {inNanos, "1999999", 1}, {inNanos, "1e15", 1_000_000_000}, {inNanos, "5", 0}, {inNanos, "1.5e6", 1},
	} {
		if got := test.unit.milliseconds(test.text); got != test.want {
			t.Errorf("%s of 10^%d ms: %d, want %d", test.text, test.unit, got, test.want)
		}
	}
}

// FuzzDuration: a duration is the floor of the number, or 0; and a request never ends before it begins.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{"1200000", "+109", "-1", "1.2e+06", "0.000073", "18446744073709551616", "1200.5s", "1e-99", "1e99"} {
		f.Add(text)
	}
	line := mustParser(f, "haproxy", Options{Zone: berlin})
	record := mustParser(f, "envoy-json", Options{})
	f.Fuzz(func(t *testing.T, text string) {
		for _, unit := range []durationUnit{inSeconds, inMillis, inMicros, inNanos} {
			if took := unit.milliseconds(text); took < 0 || took > maxTook {
				t.Fatalf("%q: %d", text, took)
			}
		}
		checkParse(t, line, `203.0.113.7:333 [25/Oct/2026:02:30:00.000] f b/s 1/0/3/6/`+text+` 200 27 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`)
		checkParse(t, record, `{"start_time":"2026-05-04T06:25:06Z","duration":`+text+`,"response_code":200,"downstream_remote_address":"203.0.113.7:1"}`)
		checkParse(t, record, `{"start_time":"2026-05-04T06:25:06Z","duration":"`+text+`","response_code":200,"downstream_remote_address":"203.0.113.7:1"}`)
	})
}
