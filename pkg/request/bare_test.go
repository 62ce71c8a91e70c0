package request

import "testing"

// nginx logs tabs around a header's value; checks and applications do not get them.
func TestSpacesAroundAHeaderAreNotItsValue(t *testing.T) {
	const key, agent, referrer = "k-1", "a b", "r"
	for _, test := range []struct{ format, line string }{
		{`$remote_addr [$time_local] "$request" $status "$http_referer" "$http_user_agent" "$http_x_api_key"`,
			`203.0.113.7 [23/Nov/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 "\x09r " "a b\x09\x09" " \x09k-1\x09 \x09"`},
		{`$remote_addr [$time_local] "$request" $status "$http_referer" "$http_user_agent" "$http_x_api_key"`,
			"203.0.113.7 [23/Nov/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 \"r\t\" \"a b\t\" \"k-1\t\""},
		{`%h %t "%r" %>s "%{Referer}i" "%{User-Agent}i" "%{X-Api-Key}i"`,
			`203.0.113.7 [23/Nov/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 "r\t" "\ta b" "\tk-1\t"`},
		{"nginx-json", `{"time_iso8601":"2026-11-23T08:00:00Z","remote_addr":"203.0.113.7","request":"GET / HTTP/1.1","status":200,"http_referer":"r\t","http_user_agent":"a b\t","http_x_api_key":"k-1\t"}`},
	} {
		var r Request
		if unread := mustParser(t, test.format, Options{}).Parse(test.line, &r); unread != nil {
			t.Errorf("%s: %v", test.line, unread)
			continue
		}
		if got, _ := r.Field("http_x_api_key"); got != key || r.Agent != agent || r.Referrer != referrer {
			t.Errorf("%s: key %q, agent %q, referrer %q", test.line, got, r.Agent, r.Referrer)
		}
	}
}

// A user's name may end in a space: a password is checked for that name.
func TestSpacesBelongToAUser(t *testing.T) {
	var r Request
	parser := mustParser(t, `$remote_addr "$remote_user" [$time_local] "$request" $status`, Options{})
	if unread := parser.Parse(`203.0.113.7 "alice " [23/Nov/2026:08:00:00 +0000] "GET / HTTP/1.1" 200`, &r); unread != nil || r.User != "alice " {
		t.Errorf("%v, %q", unread, r.User)
	}
}
