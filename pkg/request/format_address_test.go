package request

import (
	"net/netip"
	"testing"
)

func TestAddressesOfPieces(t *testing.T) {
	at := milli("2026-05-04T06:25:06Z")
	peer := netip.MustParseAddr("192.0.2.1")
	want := func(host, path, query string, fields ...Field) Request {
		return Request{UnixMilli: at, IP: peer, Host: host, Path: path, Query: query, Bytes: -1, Fields: fields}
	}
	scheme := Field{"scheme", "https"}
	tests := []struct {
		format, address string
		want            Request
	}{
		{`$uri$is_args$args`, "/a?b=c", want("", "/a", "b=c")},
		{`$uri$is_args$args`, "/a", want("", "/a", "")},
		{`$document_uri$is_args$query_string`, "/a?b=c", want("", "/a", "b=c")},
		{`$scheme://$host$request_uri`, "https://www.example.com/a?b=c", want("www.example.com", "/a", "b=c", scheme)},
		{`$scheme://$host$uri$is_args$args`, "https://www.example.com/a?b=c", want("www.example.com", "/a", "b=c", scheme)},
		{`$scheme://$http_host$request_uri`, "https://www.example.com:8443/a", want("www.example.com", "/a", "", scheme)},
		{`$host:$server_port$request_uri`, "www.example.com:443/a?b", want("www.example.com", "/a", "b", Field{"server_port", "443"})},
		{`$host:$server_port$request_uri`, "[2001:db8::1]:443/a?b", want("[2001:db8::1]", "/a", "b", Field{"server_port", "443"})},
		{`$host$request_uri`, "www.example.com", want("www.example.com", "", "")},
		{`%U%q`, "/a?b=c", want("", "/a", "b=c")},
		{`%U%q`, "/a", want("", "/a", "")},
		{`%V%U%q`, "www.example.com/a?b=c", want("www.example.com", "/a", "b=c")},
		{`%v:%p%U%q`, "[2001:db8::1]:80/a", want("[2001:db8::1]", "/a", "", Field{"server_port", "80"})},
	}
	for _, test := range tests {
		when, who, begin := "$time_iso8601", "$remote_addr", "2026-05-04T06:25:06+00:00 192.0.2.1"
		if test.format[0] == '%' {
			when, who, begin = "%t", "%h", "[04/May/2026:06:25:06 +0000] 192.0.2.1"
		}
		inside := mustParser(t, when+" "+who+` "`+test.format+`"`, Options{})
		equal(t, test.format+" in quotes: "+test.address, parsed(t, inside, begin+` "`+test.address+`"`), test.want)
		last := mustParser(t, when+" "+who+" "+test.format, Options{})
		equal(t, test.format+": "+test.address, parsed(t, last, begin+" "+test.address), test.want)
		r, line := new(Request), begin+" "+test.address
		if n := testing.AllocsPerRun(100, func() { _ = last.Parse(line, r) }); n > 0 {
			t.Errorf("%s: %v allocations a line", test.format, n)
		}
	}
}

func TestPiecesNextToTheRequestLine(t *testing.T) {
	// The client's text is more exact than the server's version of it.
	parser := mustParser(t, `$time_iso8601 "$request" $uri$is_args$args`, Options{})
	got := parsed(t, parser, `2026-05-04T06:25:06Z "GET /sent?x HTTP/1.1" /made?y`)
	if got.Path != "/sent" || got.Query != "x" {
		t.Errorf("%+v", got)
	}
	if uri, _ := got.Field("uri"); uri != "/made" {
		t.Errorf("uri is %q", uri)
	}
	if reason := reasonOf(parser, `yesterday "GET /sent?x HTTP/1.1" /made?y`); reason != "time" {
		t.Errorf("a time that is none: %q", reason)
	}
}

func TestVirtualHostIsAnIPv6Address(t *testing.T) {
	parser := mustParser(t, "vhost_combined", Options{})
	got := parsed(t, parser, `[2001:db8::1]:80 192.0.2.1 - - [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`)
	if port, _ := got.Field("server_port"); got.Host != "[2001:db8::1]" || port != "80" {
		t.Errorf("%+v, port %q", got, port)
	}
	if reason := reasonOf(parser, `[2001:db8::1`); reason != "format" {
		t.Errorf("an open bracket: %q", reason)
	}
}

func TestHostsWithoutPort(t *testing.T) {
	for authority, want := range map[string]string{"a.example:80": "a.example", "[2001:db8::1]:80": "[2001:db8::1]", "[2001:db8::1]": "[2001:db8::1]",
		"2001:db8::1": "2001:db8::1", "::": "::", ":80": "", "": "", "u:p@a.example.": "a.example"} {
		if got := hostOnly(authority); got != want {
			t.Errorf("%q: %q, want %q", authority, got, want)
		}
	}
}
