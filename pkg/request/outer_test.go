package request_test

import (
	"reflect"
	"testing"

	"weir/pkg/request"
)

// All other fields are those of the line, for any text of an outer field.
func TestAnOuterFieldChangesNoOther(t *testing.T) {
	parser, err := request.NewParser(`$remote_addr [$time_iso8601] "$request" $status "$http_host" "$http_user_agent" "$tenant" "$other"`, request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const line = `203.0.113.7 [2026-03-01T12:00:00Z] "GET /a?b=c HTTP/1.1" 200 "shop.example" "agent" "line" "more"`
	for _, name := range []string{"user", "method", "host", "agent", "referrer", "tenant", "new"} {
		for _, text := range []string{"", "-", "x", "x.example:80", "a b", `" 203.0.113.9 `, "a\nb", "a\x00b", "\xff", "other", "ip", "203.0.113.9", "   "} {
			var plain, r request.Request
			for _, one := range []*request.Request{&plain, &r} {
				if err := parser.Parse(line, one); err != nil {
					t.Fatal(err)
				}
			}
			r.SetOuter(name, text)
			r.SetOuter(name, text) // twice is as once
			got, _ := r.Field(name)
			if want := map[string]string{"x.example:80": "x.example"}[text]; name == "host" && want != "" && got != want {
				t.Errorf("%s: %q becomes %q", name, text, got)
			}
			if text == "x" && got != "x" || (text == "" || text == "-") && got != "" {
				t.Errorf("%s: %q becomes %q", name, text, got)
			}
			r.SetOuter(name, "")
			plain.SetOuter(name, "")
			if !reflect.DeepEqual(r, plain) {
				t.Errorf("%s: %q changes another field: %+v, not %+v", name, text, r, plain)
			}
		}
	}
	for _, name := range []string{"ip", "time", "status", "path", "query", "bytes", "forwarded"} {
		if request.MayBeOuter(name) {
			t.Errorf("%s may be outer", name)
		}
	}
}
