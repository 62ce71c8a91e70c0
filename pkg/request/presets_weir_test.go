package request

import "testing"

// HAProxy writes a byte of a path as #22 or #FF. In its own log a path goes on behind it; in nginx's log a # ends it.
func TestWeirReadsEachServersEscapes(t *testing.T) {
	for _, test := range []struct{ line, user, path, normal string }{
		{`203.0.113.7 haproxy - [04/May/2026:06:25:06 +0000] "POST /#22/../signin HTTP/1.1" 200 5 "-" "-" weir="-"`, "", `/"/../signin`, "/signin"},
		{`203.0.113.7 haproxy - [04/May/2026:06:25:06 +0000] "POST https://shop.example/x#FF/../signin HTTP/1.1" 200 5 "-" "-" weir="refused per-ip"`, "", "/x\xff/../signin", "/signin"},
		{`203.0.113.7 haproxy b%40shop.example [04/May/2026:06:25:06 +0000] "GET /private/ HTTP/1.1" 200 5 "-" "-" weir=""`, "b@shop.example", "/private/", "/private/"},
		{`203.0.113.7 haproxy a%20b%2541 [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1" 200 5 "-" "-" weir=""`, "a b%41", "/", "/"},
		{`203.0.113.7 haproxy - [04/May/2026:06:25:06 +0000] "<BADREQ> <BADREQ> HTTP/1.1" 400 0 "-" "-" weir="-"`, "", "", ""},
		{`203.0.113.7 - a%40b [04/May/2026:06:25:06 +0000] "GET /signin#41 HTTP/1.1" 200 5 "-" "-" weir="-"`, "a%40b", "/signin#41", "/signin"},
		{`203.0.113.7 - haproxy [04/May/2026:06:25:06 +0000] "GET /signin#41 HTTP/1.1" 200 5 "-" "-" weir="-"`, "haproxy", "/signin#41", "/signin"},
	} {
		for _, format := range []string{"weir", detectedFormat(t, test.line)} {
			r := parsed(t, mustParser(t, format, Options{}), test.line)
			normal, _ := PathForm{}.Normal(r.Path, false, nil)
			if r.User != test.user || r.Path != test.path || normal != test.normal || r.IP.String() != "203.0.113.7" {
				t.Errorf("%s, %s: user %q, path %q, %q, ip %s", format, test.line, r.User, r.Path, normal, r.IP)
			}
		}
	}

	own := parsed(t, mustParser(t, `escape=haproxy '$remote_addr [$time_local] "$request"'`, Options{}), `192.0.2.1 [04/May/2026:06:25:06 +0000] "GET /#22/../a HTTP/1.1"`)
	if own.Path != `/"/../a` {
		t.Errorf("an own format: %q", own.Path)
	}
}

func detectedFormat(t *testing.T, line string) string {
	t.Helper()
	choice, err := Choose("auto", "auto", []string{line, line}, Options{})
	if err != nil {
		t.Fatal(line, err)
	}
	return choice.Format
}
