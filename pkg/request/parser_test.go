package request

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

func mustParser(t testing.TB, format string, o Options) Parser {
	t.Helper()
	parser, err := NewParser(format, o)
	if err != nil {
		t.Fatalf("NewParser(%q): %v", format, err)
	}
	return parser
}

// parsed is the one request of a line.
func parsed(t testing.TB, parser Parser, line string) Request {
	t.Helper()
	var r Request
	if err := parser.Parse(line, &r); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return r
}

func equal(t testing.TB, line string, got, want Request) {
	t.Helper()
	if len(got.Fields) == 0 {
		got.Fields = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\ngot  %+v\nwant %+v", line, got, want)
	}
}

func milli(rfc3339 string) int64 {
	at, err := time.Parse(time.RFC3339Nano, rfc3339)
	if err != nil {
		panic(err)
	}
	return at.UnixMilli()
}

func reasonOf(parser Parser, line string) string {
	var r Request
	err := parser.Parse(line, &r)
	if errors.Is(err, ErrNoRequest) {
		return "no request"
	}
	return Reason(err)
}

func TestUnknownFormatNamesThePresets(t *testing.T) {
	_, err := NewParser("combned", Options{})
	if err == nil || !strings.Contains(err.Error(), "combned") || !strings.Contains(err.Error(), "ingress-nginx") {
		t.Errorf("NewParser gave %v", err)
	}
}

func TestEveryPresetCanBeMade(t *testing.T) {
	for _, name := range Presets() {
		if _, err := NewParser(name, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBlankLinesAndCommentsAreNoRequests(t *testing.T) {
	for _, name := range []string{"combined", "main", "ingress-nginx", "haproxy", "alb", "iis", "cloudfront"} {
		parser := mustParser(t, name, Options{})
		for _, line := range []string{"", "\n", "\r\n", "   ", "# a comment", "#Version: 1.0"} {
			if got := reasonOf(parser, line); got != "no request" {
				t.Errorf("%s: %q: %q", name, line, got)
			}
		}
	}
}

func TestReasons(t *testing.T) {
	combined := mustParser(t, "combined", Options{})
	const rest = ` "GET / HTTP/1.1" 200 1 "-" "-"`
	tests := []struct{ line, want string }{
		{`1.2.3.4 - - [17/Apr/2018:06:25:06 +0000]` + rest, ""},
		{`host.example.com - - [17/Apr/2018:06:25:06 +0000]` + rest, "address"},
		{`1.2.3.4 - - [31/Apr/2018:06:25:06 +0000]` + rest, "time"},
		{`1.2.3.4 - - [17/Apr/2018:06:25:06]` + rest, "time"},
		{`1.2.3.4 - - [-]` + rest, "time"},
		{`1.2.3.4 - - [17/Apr/2110:06:25:06 +0000]` + rest, "time"},
		{`1.2.3.4 - -`, "format"},
		{`hello, world`, "format"},
		{`1.2.3.4 - - [17/Apr/2018:06:25:06`, "format"},
		{`1.2.3.4 - - [17/Apr/2018:06:25:06 +0000] "GET / HTTP/1.1" abc 1 "-" "-"`, "format"},
		{`1.2.3.4 - - [17/Apr/2018:06:25:06 +0000] "GET / HTTP/1.1" 200 1e3 "-" "-"`, "format"},
		{`1.2.3.4 - - [17/Apr/2018:06:25:06 +0000] "GET / HTTP/1.1" 200 1 "-" "-" "more"`, "format"},
		{`{"time":"2018-04-17T06:25:06Z"}`, "format"},
	}
	known := Reasons()
	for _, test := range tests {
		got := reasonOf(combined, test.line)
		if got != test.want {
			t.Errorf("%s: reason %q, want %q", test.line, got, test.want)
		}
		if got != "" && !strings.Contains(strings.Join(known, " "), got) {
			t.Errorf("%q is not among Reasons", got)
		}
	}
}

func TestReasonOfOtherErrors(t *testing.T) {
	for _, err := range []error{nil, ErrNoRequest, errors.New("another")} {
		if got := Reason(err); got != "" {
			t.Errorf("Reason(%v) = %q", err, got)
		}
	}
}

// Reading any line costs no memory once the request's fields have grown.
func TestParseAllocatesNothing(t *testing.T) {
	formats := map[string]func(*benchTraffic) string{
		"combined":      (*benchTraffic).combined,
		"ingress-nginx": (*benchTraffic).ingress,
		"alb":           (*benchTraffic).alb,
	}
	for name, line := range formats {
		parser := mustParser(t, name, Options{})
		traffic := newBenchTraffic()
		lines := make([]string, 1000)
		for i := range lines {
			lines[i] = line(traffic)
		}
		lines = append(lines, "unread", "", "host - - [", `1.2.3.4 - - [32/Apr/2018:06:25:06 +0000] "`)
		var r Request
		next := 0
		allocations := testing.AllocsPerRun(len(lines), func() {
			Reason(parser.Parse(lines[next%len(lines)], &r))
			next++
		})
		if allocations != 0 {
			t.Errorf("%s: %v allocations a line", name, allocations)
		}
	}
}

// Options.Fields maps our fields to the format's own names.
func TestFieldsOption(t *testing.T) {
	o := Options{Fields: map[string]string{"user": "http_x_user", "tenant": "$cookie_tenant", "ip": "http_x_real_ip"}}
	const format = `$remote_addr [$time_iso8601] "$request" "$http_x_real_ip" "$http_x_user" $cookie_tenant $status`
	line := `10.0.0.1 [2026-05-04T06:25:06+00:00] "GET / HTTP/1.1" "192.0.2.1" "alice" acme 200`
	equal(t, line, parsed(t, mustParser(t, format, o), line), Request{UnixMilli: milli("2026-05-04T06:25:06Z"),
		IP: netip.MustParseAddr("192.0.2.1"), User: "alice", Method: "GET", Path: "/", Status: 200, Bytes: -1,
		Fields: []Field{{"remote_addr", "10.0.0.1"}, {"tenant", "acme"}}})

	_, err := NewParser(format, Options{Fields: map[string]string{"user": "jwt_sub"}})
	if err == nil || !strings.Contains(err.Error(), "field user: the format has no jwt_sub") || !strings.Contains(err.Error(), "cookie_tenant") {
		t.Errorf("a field that is not there: %v", err)
	}
}

func TestOtherFormatsAllocateNothing(t *testing.T) {
	for format, line := range map[string]string{
		"haproxy":    `<150>Feb  6 12:14:14 l haproxy[1]: 10.0.1.2:333 [06/Feb/2009:12:14:14.655] f b/s 1/0/3/6/10 200 27 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`,
		"cloudfront": "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td1.cloudfront.net\t/a\t200\t-\tcurl/8.5.0\t-",
		"[%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t] %h": "[04/May/2026:08:25:06.789 +0200] 192.0.2.1",
	} {
		parser := mustParser(t, format, Options{Zone: berlin})
		r := parsed(t, parser, line)
		if n := testing.AllocsPerRun(100, func() { _ = parser.Parse(line, &r) }); n != 0 {
			t.Errorf("%s: %v allocations a line", format, n)
		}
	}
}

func TestHeaderOption(t *testing.T) {
	const format = `[$time_iso8601] "$http_x_forwarded_for" "$http_cf_connecting_ip"`
	const line = `[2026-05-04T06:25:06Z] "192.0.2.1, 10.0.0.1" "192.0.2.2"`
	for header, want := range map[string]string{"": "192.0.2.1, 10.0.0.1", "X-Forwarded-For": "192.0.2.1, 10.0.0.1", "CF-Connecting-IP": "192.0.2.2"} {
		r := parsed(t, mustParser(t, format, Options{Header: header}), line)
		if r.Forwarded != want || len(r.Fields) != 1 {
			t.Errorf("header %q: Forwarded %q, fields %v", header, r.Forwarded, r.Fields)
		}
	}
}
