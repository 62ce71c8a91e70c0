package request

import (
	"testing"
)

// A line of another format in the same file, after a deploy for example, is unread rather than counted for the server
// or the proxy that stands in the client's place.
func TestCombinedReadsNoHostForTheClient(t *testing.T) {
	const common = ` [17/Apr/2018:06:25:06 +0000] "GET /login HTTP/1.1" 200 5`
	const combined = common + ` "-" "curl/8.5.0"`
	tails := map[string]string{"combined": combined, "common": common, "combined-plus": combined + " 0.1", "common-plus": common + " 17",
		`%h %l %u %t "%r" %>s %b`: common, "host_combined": combined, "vhost_combined": combined}
	begins := map[string]string{"host_combined": "shop.example ", "vhost_combined": "shop.example:80 "}
	for format, tail := range tails {
		parser, begin := mustParser(t, format, Options{}), begins[format]
		for _, other := range []string{
			"192.0.2.10 203.0.113.7 - -", "192.0.2.10 203.0.113.7 - alice", "[2001:db8::1] 2001:db8::7 - -", "9.9.9.9 203.0.113.7 - [a",
			`9.9.9.9 203.0.113.7 - ""`, `9.9.9.9 203.0.113.7 - \"`, `9.9.9.9 203.0.113.7 - \x22 x`, "192.0.2.10:443 203.0.113.7 - -", // host and client
			"10.0.0.1 203.0.113.7 - -", "10.0.0.1 9.9.9.9, 203.0.113.7 - alice", // the peer and X-Forwarded-For
		} {
			if got := reasonOf(parser, begin+other+tail); got != "format" {
				t.Errorf("%s: %s: %q", format, begin+other+tail, got)
			}
		}

		// A client cannot write the identity, and must not make its line unread by its name.
		for _, own := range []string{"203.0.113.7 - -", "203.0.113.7 - - -", "203.0.113.7 - 9.9.9.9 - -", "203.0.113.7 - [a", `203.0.113.7 - ""`,
			"203.0.113.7 shop.example -", "203.0.113.7 192.0.2.10 -", "203.0.113.7 192.0.2.10 alice"} { // the last three as lighttpd writes them
			if got := parsed(t, parser, begin+own+tail); got.IP.String() != "203.0.113.7" {
				t.Errorf("%s: %s: %+v", format, begin+own+tail, got)
			}
		}
	}

	if got := parsed(t, mustParser(t, `%h %l "%u" %t "%r"`, Options{}), `203.0.113.7 192.0.2.10 "- -" [17/Apr/2018:06:25:06 +0000] "GET / HTTP/1.1"`); got.User != "- -" {
		t.Errorf("%+v", got)
	}
}
