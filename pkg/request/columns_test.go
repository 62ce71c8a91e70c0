package request

import (
	"net/netip"
	"strings"
	"testing"
)

// IIS writes its header again when it starts, with other columns if they were changed.
func TestFieldsHeaderChangesTheColumns(t *testing.T) {
	parser := mustParser(t, "iis", Options{})
	const first = `2026-05-04 06:25:06 10.0.0.1 GET /a - 443 - 192.0.2.1 curl/8.5.0 - 200 0 0 31`
	const second = `06:25:07.250 2026-05-04 192.0.2.2 GET /b 404 refused 203.0.113.1`
	r := parsed(t, parser, first)
	if r.Path != "/a" || r.IP != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("before any header: %+v", r)
	}
	if got := reasonOf(parser, "#Fields: time date c-ip cs-method cs-uri-stem sc-status X-Weir X-Forwarded-For\r\n"); got != "no request" {
		t.Errorf("the header: %q", got)
	}
	equal(t, second, parsed(t, parser, second), Request{UnixMilli: milli("2026-05-04T06:25:07.250Z"), IP: netip.MustParseAddr("192.0.2.2"),
		Method: "GET", Path: "/b", Status: 404, Bytes: -1, Forwarded: "203.0.113.1", Fields: []Field{{"weir", "refused"}}})
	if got := reasonOf(parser, first); got == "" {
		t.Error("a line of the old columns was read by the new ones")
	}
}

// IIS writes a plus for each space of a header. A client that sends X-Forwarded-For must not hide the address that the
// proxy adds behind it.
func TestForwardedOfIIS(t *testing.T) {
	client := NewClient([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	for _, column := range []string{"X-Forwarded-For", "x-forwarded-for", "cs(X-Forwarded-For)"} {
		lines := []string{"#Fields: date time c-ip cs-method cs-uri-stem sc-status " + column,
			"2026-05-04 06:25:06 10.0.0.1 GET /a 200 198.51.100.9,+203.0.113.7", "2026-05-04 06:25:06 10.0.0.1 GET /a 200 198.51.100.9,+203.0.113.7:4711,+10.0.0.2"}
		choice, err := Detect(lines, Options{})
		if err != nil || choice.Format != "iis" {
			t.Errorf("%s: auto takes %q, %v", column, choice.Format, err)
		}
		parser := mustParser(t, "iis", Options{})
		_ = reasonOf(parser, lines[0])
		for _, line := range lines[1:] {
			r := parsed(t, parser, line)
			if proxy := client.Resolve(&r); proxy || r.IP != netip.MustParseAddr("203.0.113.7") {
				t.Errorf("%s: %s is of %s", column, line, r.IP)
			}
		}
	}
}

// IIS cuts a column of the administrator's own at 4,096 bytes, and a client must not choose which address is then the
// last one.
func TestForwardedOfIISIsCutOff(t *testing.T) {
	client := NewClient([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	parser := mustParser(t, "#Fields: date time c-ip cs-method cs-uri-stem sc-status X-Forwarded-For", Options{})
	for size, want := range map[int]netip.Addr{4096: {}, 4095: netip.MustParseAddr("198.51.100.9")} {
		header := strings.Repeat("+", size-len("198.51.100.9")) + "198.51.100.9"
		r := parsed(t, parser, "2026-05-04 06:25:06 10.0.0.1 GET /a 200 "+header)
		if proxy := client.Resolve(&r); proxy || r.IP != want || r.Path != "/a" {
			t.Errorf("%d bytes: a request of %s", size, r.IP)
		}
		r = parsed(t, parser, "2026-05-04 06:25:06 203.0.113.7 GET /a 200 "+header)
		if proxy := client.Resolve(&r); proxy || r.IP != netip.MustParseAddr("203.0.113.7") {
			t.Errorf("%d bytes, without a proxy: a request of %s", size, r.IP)
		}
	}
}

func TestColumnsThatWillNotDoLeaveLinesUnread(t *testing.T) {
	parser := mustParser(t, "iis", Options{})
	if got := reasonOf(parser, "#Fields: time c-ip cs-method"); got != "no request" {
		t.Errorf("the header: %q", got)
	}
	if got := reasonOf(parser, "06:25:06 192.0.2.1 GET"); got != "format" {
		t.Errorf("a line without a date: %q", got)
	}
}

func TestFieldsHeaderAsFormat(t *testing.T) {
	r := parsed(t, mustParser(t, "#Fields: date time c-ip cs-uri-stem", Options{}), "2026-05-04 06:25:06 192.0.2.1 /a")
	if r.Path != "/a" || r.UnixMilli != milli("2026-05-04T06:25:06Z") {
		t.Errorf("got %+v", r)
	}
	r = parsed(t, mustParser(t, "#Fields: date time x-edge-location c-ip", Options{}), "2026-05-04\t06:25:06\tLAX1\t192.0.2.1")
	if r.IP != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("got %+v", r)
	}
	for names, want := range map[string]string{"time c-ip": "no date", "date c-ip": "no time", "": "no date"} {
		if _, err := NewParser("#Fields: "+names, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("columns %q: %v", names, err)
		}
	}
}

func TestColumnsMustBeAsManyAsNamed(t *testing.T) {
	parser := mustParser(t, "#Fields: date time c-ip sc-status", Options{})
	for _, line := range []string{"2026-05-04 06:25:06 192.0.2.1", "2026-05-04 06:25:06 192.0.2.1 200 0", "2026-05-04"} {
		if got := reasonOf(parser, line); got != "format" {
			t.Errorf("%q: %q", line, got)
		}
	}
}
