package request

import (
	"strings"
	"testing"
)

// Wherever a client has its line cut off, its id is the complete one or none.
func TestNoPartOfAnIDIsOne(t *testing.T) {
	const id = "0c5d1e2f3a4b5c6d7e8f901234567890"
	agent := strings.Repeat("a", 600)
	for _, test := range []struct{ name, format, by, before, after string }{
		{"quoted", `$remote_addr [$time_iso8601] "$request" "$http_user_agent" "$request_id" $status`, "request_id",
			`203.0.113.7 [2026-05-04T06:25:06+00:00] "GET / HTTP/1.1" "AGENT" "`, `" 200`},
		{"last in quotes", `$remote_addr [$time_iso8601] "$request" "$http_user_agent" "$request_id"`, "request_id",
			`203.0.113.7 [2026-05-04T06:25:06+00:00] "GET / HTTP/1.1" "AGENT" "`, `"`},
		{"at the end", `$remote_addr [$time_iso8601] "$request" "$http_user_agent" $request_id`, "request_id",
			`203.0.113.7 [2026-05-04T06:25:06+00:00] "GET / HTTP/1.1" "AGENT" `, ``},
		{"ingress-nginx", "ingress-nginx", "req_id",
			`203.0.113.7 - - [04/May/2026:06:25:06 +0000] "GET / HTTP/1.1" 404 5 "-" "AGENT" 1 0.001 [s] [] 10.0.0.1:80 0 0.1 200 `, ``},
		{"json", "json", "request_id",
			`{"time":"2026-05-04T06:25:06Z","ip":"203.0.113.7","path":"/","status":200,"agent":"AGENT","request_id":"`, `"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, ids := newDecoder(t, "none", test.format, Options{}), IDs{By: test.by}
			of := func(line string) string {
				t.Helper()
				var r Request
				if err := d.Decode(line, &r); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				return ids.Of(&r)
			}
			if got := of(strings.Replace(test.before, "AGENT", "a", 1) + id + test.after); got != id {
				t.Fatalf("the id of a short line is %q", got)
			}
			if got := of(strings.Replace(test.before, "AGENT", "a", 1) + "-" + test.after); got != "" {
				t.Errorf("no id is %q", got)
			}
			before := strings.Replace(test.before, "AGENT", agent, 1)
			line := before + id + test.after
			if got := of(line); got != id {
				t.Errorf("the id of a long line is %q", got)
			}
			for size := len(before) - 20; size < len(line); size++ {
				got := of(line[:size])
				if complete := size > len(before)+len(id); got != "" && got != id || complete && got != id {
					t.Errorf("cut off behind %q the id is %q", line[size-10:size], got)
				}
			}
		})
	}
}
