package request

import (
	"net/netip"
	"strings"
	"testing"
)

func TestRequestLines(t *testing.T) {
	tests := []struct {
		text string
		want requestLine
	}{
		{"GET / HTTP/1.1", requestLine{method: "GET", path: "/"}},
		{"GET /a?b=c?d HTTP/2.0", requestLine{method: "GET", path: "/a", query: "b=c?d"}},
		{"GET /a b c HTTP/1.1", requestLine{method: "GET", path: "/a b c"}},
		{"GET /a HTTP/1.1 b HTTP/1.0", requestLine{method: "GET", path: "/a HTTP/1.1 b"}},
		{"GET /", requestLine{method: "GET", path: "/"}},
		{"GET / HTTP/3", requestLine{method: "GET", path: "/"}},
		{"/bare?path", requestLine{path: "/bare", query: "path"}},
		{"OPTIONS * HTTP/1.1", requestLine{method: "OPTIONS", path: "*"}},
		{"GET */a HTTP/1.1", requestLine{method: "GET", path: "/a"}}, // HAProxy passes it on
		{"GET *?a/b HTTP/1.1", requestLine{method: "GET", path: "*", query: "a/b"}},
		{"PRI * HTTP/2.0", requestLine{method: "PRI", path: "*"}},
		{"M-SEARCH * HTTP/1.1", requestLine{method: "M-SEARCH", path: "*"}},
		{"GET http://user:pw@Example.com.:8080/a?b HTTP/1.1", requestLine{method: "GET", host: "Example.com", path: "/a", query: "b"}},
		{"GET https://example.com HTTP/1.1", requestLine{method: "GET", host: "example.com", path: "/"}},
		{"GET https://example.com?q HTTP/1.1", requestLine{method: "GET", host: "example.com", path: "/", query: "q"}},
		{"GET http://[2001:db8::1]:80/ HTTP/1.1", requestLine{method: "GET", host: "[2001:db8::1]", path: "/"}},
		{"GET http://[2001:db8::1]/ HTTP/1.1", requestLine{method: "GET", host: "[2001:db8::1]", path: "/"}},
		{"CONNECT example.com:443 HTTP/1.1", requestLine{method: "CONNECT", host: "example.com"}},
		{"CONNECT /path?query HTTP/1.1", requestLine{method: "CONNECT", path: "/path", query: "query"}}, // Caddy passes it on
		{"GET http:/path?query HTTP/1.1", requestLine{method: "GET", path: "/path", query: "query"}},    // and this
		{"GET a+b.c-1:/path HTTP/1.1", requestLine{method: "GET", path: "/path"}},
		{"GET http:///path HTTP/1.1", requestLine{method: "GET", path: "/path"}},
		{"GET ?q HTTP/1.1", requestLine{method: "GET", path: "/", query: "q"}}, // Apache serves this as /?q
		{"GET ? HTTP/1.1", requestLine{method: "GET", path: "/"}},
		{"GET  /path HTTP/1.1", requestLine{method: "GET", path: "/path"}}, // nginx and HAProxy serve these
		{"GET    /path?query   HTTP/1.1", requestLine{method: "GET", path: "/path", query: "query"}},
		{"GET  /path", requestLine{method: "GET", path: "/path"}},
		{"GET  http://h/path  HTTP/1.1 ", requestLine{method: "GET", host: "h", path: "/path"}},
		{"GET /of  two  words  HTTP/1.1", requestLine{method: "GET", path: "/of  two  words"}},
		{"GET relative HTTP/1.1", requestLine{method: "GET", path: "relative"}},
		{"GET //evil//x HTTP/1.1", requestLine{method: "GET", path: "//evil//x"}},
		{"get / HTTP/1.1", requestLine{method: "get", path: "/"}},
		{"- - -", requestLine{}},
		{"- - - ", requestLine{}},
		{"- http://lb:80- ", requestLine{host: "lb"}},
		{"-", requestLine{}},
		{"", requestLine{}},
		{" ", requestLine{}},
		{"GET", requestLine{}},
		{"GET ", requestLine{method: "GET"}},
		{"\x16\x03\x01\x02", requestLine{}},
		{"\x16\x03 \x01 HTTP/1.1", requestLine{}},
		{"<BADREQ>", requestLine{}},
		{"G\xffT / HTTP/1.1", requestLine{}},
		{"GET /\xff\xfe HTTP/1.1", requestLine{method: "GET", path: "/\xff\xfe"}},
	}
	for _, test := range tests {
		if got := splitRequestLine(test.text); got != test.want {
			t.Errorf("%q: %+v, want %+v", test.text, got, test.want)
		}
	}
}

func TestEscapes(t *testing.T) {
	tests := []struct {
		escape     escape
		text, want string
	}{
		{escapeBackslash, `plain`, "plain"},
		{escapeBackslash, `\x22\x5C\x16\xff`, "\"\\\x16\xff"},
		{escapeBackslash, `\"a\" \\ \/ \n\t\r\b\f\v`, "\"a\" \\ / \n\t\r\b\f\v"},
		{escapeBackslash, `\u0001\u00e9`, "\x01é"},
		{escapeBackslash, `\x4 \xzz \q \u12 end\`, `\x4 \xzz \q \u12 end\`},
		{escapeHash, `#22#7b# #2 #zz#`, `"{# #2 #zz#`},
		{escapePercent, `%20%25%zz%`, ` %%zz%`},
		{escapeNone, `\x22#22%22`, `\x22#22%22`},
	}
	for _, test := range tests {
		if got := test.escape.undo(test.text); got != test.want {
			t.Errorf("%s: %q, want %q", test.text, got, test.want)
		}
	}
}

// The names of clients stand unquoted before the time, and may contain the text between the two.
func TestBracketInTheName(t *testing.T) {
	parser := mustParser(t, "combined", Options{})
	const rest = `[17/Apr/2018:06:25:06 +0000] "GET / HTTP/1.1" 200 1 "-" "agent"`
	for _, user := range []string{"alice", "a [b", "a [b] [c", " [", "a [01/Jan/2000:00:00:00 +0000]", "a [01/Jan/2000:00:00:00 +0000] x [",
		`a [01/Jan/2000:00:00:00 +0000] \x22GET`, strings.Repeat(" [", 4000)} {
		line := "192.0.2.1 - " + user + " " + rest
		r := parsed(t, parser, line)
		if want := strings.ReplaceAll(user, `\x22`, `"`); r.User != want || r.UnixMilli != milli("2018-04-17T06:25:06Z") || r.Agent != "agent" {
			t.Errorf("%s: %+v", line, r)
		}
	}
	// A line that mixes the text of two writers is not a request of the first with the second's time.
	torn := `192.0.2.1 - - [17/Apr/2018:06:25:06 +0000] "GET / HT192.0.2.2 - - ` + rest
	if got := reasonOf(parser, torn); got != "format" {
		t.Errorf("a torn line: %q", got)
	}
}

func TestLineCutOffInItsLastField(t *testing.T) {
	parser := mustParser(t, "combined", Options{})
	line := `192.0.2.1 - - [17/Apr/2018:06:25:06 +0000] "GET / HTTP/1.1" 200 1 "-" "Mozilla/5.0 (\x22`
	if r := parsed(t, parser, line); r.Agent != `Mozilla/5.0 ("` || r.Path != "/" {
		t.Errorf("%+v", r)
	}
	if got := reasonOf(parser, strings.TrimSuffix(line, `"Mozilla/5.0 (\x22`)); got != "format" {
		t.Errorf("cut off before its last field: %q", got)
	}
}

func TestNginxFormats(t *testing.T) {
	at := milli("2026-05-04T06:25:06Z")
	peer := netip.MustParseAddr("192.0.2.1")
	tests := []struct {
		name, format, line string
		want               Request
	}{
		{"the directive, over several lines", "log_format  main  escape=default '$remote_addr - $remote_user [$time_local] '\n\t\t'\"$request\" '\n\t\t'$status';\n",
			`192.0.2.1 - - [04/May/2026:06:25:06 +0000] "GET /a HTTP/1.1" 404`,
			Request{UnixMilli: at, IP: peer, Method: "GET", Path: "/a", Status: 404, Bytes: -1}},
		{"quoted strings alone", `'$remote_addr [$time_iso8601] ' "\"$request\""`, `192.0.2.1 [2026-05-04T06:25:06+00:00] "GET /a HTTP/1.1"`,
			Request{UnixMilli: at, IP: peer, Method: "GET", Path: "/a", Bytes: -1}},
		{"one double-quoted string", `"$msec \"$request\" $remote_addr"`, `1777875906.000 "GET /a HTTP/1.1" 192.0.2.1`,
			Request{UnixMilli: at, IP: peer, Method: "GET", Path: "/a", Bytes: -1}},
		{"bare, though it begins with a quote", `"$remote_addr" "$time_iso8601" "$request"`, `"192.0.2.1" "2026-05-04T06:25:06Z" "GET /a HTTP/1.1"`,
			Request{UnixMilli: at, IP: peer, Method: "GET", Path: "/a", Bytes: -1}},
		{"with tabs, copied without its quotes", `$remote_addr\t$time_local\t"$request"`, "192.0.2.1\t04/May/2026:06:25:06 +0000\t\"GET /a HTTP/1.1\"",
			Request{UnixMilli: at, IP: peer, Method: "GET", Path: "/a", Bytes: -1}},
		{"copied without its quotes", `$remote_addr [$time_local] \"$request\"`, `192.0.2.1 [04/May/2026:06:25:06 +0000] "GET /a HTTP/1.1"`,
			Request{UnixMilli: at, IP: peer, Method: "GET", Path: "/a", Bytes: -1}},
		{"escape=json", `log_format j escape=json '{"t":"$time_iso8601","ip":"$remote_addr","u":"$remote_user","r":"$request","s":$status,"a":"$http_user_agent","up":"$upstream_status"}'`,
			`{"t":"2026-05-04T06:25:06+00:00","ip":"192.0.2.1","u":"","r":"GET /\u0001\"x\\ HTTP/1.1","s":200,"a":"é","up":""}`,
			Request{UnixMilli: at, IP: peer, Method: "GET", Path: "/\x01\"x\\", Status: 200, Bytes: -1, Agent: "é"}},
		{"escape=none", `escape=none '$time_iso8601 $status "$http_user_agent" $remote_addr'`, `2026-05-04T06:25:06Z 200 "\x22 "hi" 200 "a" 10.0.0.9" 192.0.2.1`,
			Request{UnixMilli: at, IP: peer, Status: 200, Bytes: -1, Agent: `\x22 "hi" 200 "a" 10.0.0.9`}},
		{"each by itself", `$time_iso8601|$realip_remote_addr|$remote_addr|"$remote_user"|$request_method|$scheme://$host|"$uri"|"$args"|$status|$bytes_sent|${request_time}s`,
			`2026-05-04T06:25:06Z|10.0.0.1|192.0.2.1|"alice"|POST|https://example.com:8443|"/a"|"b=c"|201|55|0.010s`,
			Request{UnixMilli: at, IP: peer, User: "alice", Method: "POST", Host: "example.com", Path: "/a", Query: "b=c", Status: 201, Bytes: 55,
				Fields: []Field{{"realip_remote_addr", "10.0.0.1"}, {"scheme", "https"}, {"request_time", "0.010"}}}},
		{"the finer time, and what was sent before what was made of it", `$time_local|$msec|$uri|"$request"|$server_name|$host|$bytes_sent|$body_bytes_sent|"$request_uri"`,
			`04/May/2026:06:25:06 +0000|1777875906.789|/index.html|"GET /?x HTTP/1.1"|_|example.com|300|200|"/?x"`,
			Request{UnixMilli: at + 789, Method: "GET", Host: "example.com", Path: "/", Query: "x", Bytes: 200,
				Fields: []Field{{"time_local", "04/May/2026:06:25:06 +0000"}, {"uri", "/index.html"}, {"server_name", "_"}, {"bytes_sent", "300"}}}},
		{"our mark, and other headers", `$time_iso8601 "$sent_http_x_weir" "$upstream_http_x_weir" "$http_x_api_key" $cookie_session "$http_referer"`,
			`2026-05-04T06:25:06Z "refused" "-" "k 1" - "https://example.com/"`,
			Request{UnixMilli: at, Bytes: -1, Referrer: "https://example.com/", Fields: []Field{{"weir", "refused"}, {"http_x_api_key", "k 1"}}}},
		{"addresses before proxies, unquoted", `$http_x_forwarded_for - $tenant [$time_local] "$request"`, `192.0.2.1, 10.0.0.1 - bob [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1"`,
			Request{UnixMilli: at, Method: "GET", Path: "/", Bytes: -1, Forwarded: "192.0.2.1, 10.0.0.1", Fields: []Field{{"tenant", "bob"}}}},
		{"a socket's peer", `$remote_addr [$time_local]`, `unix: [04/May/2026:06:25:06 +0000]`, Request{UnixMilli: at, Bytes: -1}},
		{"a time with spaces around", `$time_local $remote_addr`, `04/May/2026:06:25:06 +0000 192.0.2.1`, Request{UnixMilli: at, IP: peer, Bytes: -1}},
	}
	for _, test := range tests {
		equal(t, test.name+": "+test.line, parsed(t, mustParser(t, test.format, Options{}), test.line), test.want)
	}
}

func TestApacheFormats(t *testing.T) {
	at := milli("2026-05-04T06:25:06Z")
	peer := netip.MustParseAddr("192.0.2.1")
	tests := []struct {
		name, format, line string
		want               Request
	}{
		{"the directive", `LogFormat "%h %l %u %t \"%r\" %>s %b" common`, `192.0.2.1 - "" [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1" 200 -`,
			Request{UnixMilli: at, IP: peer, Method: "GET", Path: "/", Status: 200, Bytes: 0}},
		{"the quoted string", `"%h %t \"%r\""`, `192.0.2.1 [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1"`,
			Request{UnixMilli: at, IP: peer, Method: "GET", Path: "/", Bytes: -1}},
		{"copied without its quotes", `%h %t \"%r\"`, `192.0.2.1 [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1"`,
			Request{UnixMilli: at, IP: peer, Method: "GET", Path: "/", Bytes: -1}},
		{"bare, though it begins with a quote", `"%a" %t "%m"`, `"192.0.2.1" [04/May/2026:06:25:06 +0000] "GET"`,
			Request{UnixMilli: at, IP: peer, Method: "GET", Bytes: -1}},
		{"each by itself", `%{c}a %a "%u" %{sec}t %m "%U%q%%" %<s "%400,501{User-Agent}i" %B %O %I %D %V %p "%{Host}i" "%{X-Api-Key}i" %{X-Weir}o %{JSESSIONID}C %{ms}T "%!200{Referer}i" %H`,
			`10.0.0.1 192.0.2.1 "alice" 1777875906 GET "/a?b=c%" 200 "agent/1" 17 99 42 12345 canonical.example.com 443 "www.example.com:443" "k1" refused s1 12 "-" HTTP/1.1`,
			Request{UnixMilli: at + 12, TookMilli: 12, IP: peer, User: "alice", Method: "GET", Host: "www.example.com", Path: "/a", Query: "b=c", Status: 200, Bytes: 17, Agent: "agent/1",
				Fields: []Field{{"realip_remote_addr", "10.0.0.1"}, {"bytes_sent", "99"}, {"request_length", "42"}, {"request_time_us", "12345"},
					{"host", "canonical.example.com"}, {"server_port", "443"}, {"http_x_api_key", "k1"}, {"weir", "refused"}, {"cookie_jsessionid", "s1"},
					{"request_time_ms", "12"}, {"server_protocol", "HTTP/1.1"}}}},
		{"the header for clients behind proxies", `"%{X-Forwarded-For}i" %l %u %t`, `"192.0.2.1, 10.0.0.1" - - [04/May/2026:06:25:06 +0000]`,
			Request{UnixMilli: at, Bytes: -1, Forwarded: "192.0.2.1, 10.0.0.1"}},
		{"a time of parts", `[%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t] %h`, `[04/May/2026:08:25:06.789 +0200] 192.0.2.1`,
			Request{UnixMilli: at + 789, IP: peer, Bytes: -1}},
		{"a time in a form of its own", `%{begin:%Y-%m-%dT%H:%M:%S%z}t %h`, `2026-05-04T06:25:06+0000 192.0.2.1`, Request{UnixMilli: at, IP: peer, Bytes: -1}},
		{"a time with day and year short", `%{%e.%m.%y %R:%S.}t%{usec_frac}t %h`, ` 4.05.26 06:25:06.789999 192.0.2.1`, Request{UnixMilli: at + 789, IP: peer, Bytes: -1}},
		{"a time in seconds with a fraction", `%{%s}t.%{msec_frac}t %h`, `1777875906.789 192.0.2.1`, Request{UnixMilli: at + 789, IP: peer, Bytes: -1}},
		{"a time in microseconds", `%{usec}t %h`, `1777875906789123 192.0.2.1`, Request{UnixMilli: at + 789, IP: peer, Bytes: -1}},
	}
	for _, test := range tests {
		equal(t, test.name+": "+test.line, parsed(t, mustParser(t, test.format, Options{}), test.line), test.want)
	}
}

func TestTimePatternsRefuseOtherLines(t *testing.T) {
	parser := mustParser(t, `[%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t] %h`, Options{})
	for _, text := range []string{"", "04/May/2026:08:25:06 +0200", "04/May/2026:08:25:06.789", "04/Mai/2026:08:25:06.789 +0200", "04/May/2026:08:25:06.78 +0200",
		"4/May/2026:08:25:06.789 +0200", "04/May/2026:08:25:06.789 +0200 "} {
		if got := reasonOf(parser, "["+text+"] 192.0.2.1"); got != "time" {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestRefusedFormats(t *testing.T) {
	tests := []struct{ format, want string }{
		{`$remote_addr "$request" $status`, "has no time"},
		{`%h "%r" %>s`, "has no time"},
		{`$time_iso8601 $scheme$host`, "nothing stands between $scheme and $host"},
		{`%t %m%U`, "nothing stands between %m and %U"},
		{`%{%F}t %h`, "a time needs year"},
		{`%{%F %T %Q}t %h`, "cannot read %Q"},
		{`%{%F %}t`, "cannot read %"},
		{`%t %Z`, "%Z: Apache has no such directive"},
		{`%t %^ti`, "trailers"},
		{`%t %{X-Api-Key`, "is not closed"},
		{`%t %>`, "nothing follows"},
		{`LogFormat "%t %h`, "is not closed"},
		{`'$time_iso8601 $remote_addr`, "is not closed"},
		{`log_format x escape=html '$time_iso8601'`, "escape=html"},
		{`$time_iso8601 costs $`, "no variable's name"},
		{`${time_iso8601`, "no variable's name"},
		{`log_format`, "unknown format"},
		{`LogFormat`, "has no time"},
		{`LogFormat ""`, "has no time"},
		{`log_format x '';`, "unknown format"},
		{``, "unknown format"},
	}
	for _, test := range tests {
		_, err := NewParser(test.format, Options{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.format, err, test.want)
		}
	}
}

// A space before a line comes from a relay where the format begins with the address, which a server always writes.
// Elsewhere it is an empty field: the next one must not take its place.
func TestSpaceBeforeALine(t *testing.T) {
	line := ` 203.0.113.7 - alice [17/Apr/2018:06:25:06 +0000] "GET /login HTTP/1.1" 200 5`
	rest := `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent`
	for format, lines := range map[string][]string{
		rest:               {line, " " + line},
		"$host " + rest:    {line},
		"h=$host, " + rest: {"  h=shop.example," + line},
	} {
		for _, line := range lines {
			if r := parsed(t, mustParser(t, format, Options{}), line); r.IP.String() != "203.0.113.7" || r.User != "alice" {
				t.Errorf("%q of %s: %s", line, format, describe(&r, nil))
			}
		}
	}
}
