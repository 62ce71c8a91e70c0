package enforcer

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"testing"

	"weir/pkg/blocklist"
)

// A check by another protocol has the answer of Envoy's check over HTTP about the same request.
func TestCheckForAnswersAsHTTP(t *testing.T) {
	entries := []*blocklist.Entry{ofIP("203.0.113.66"), ofIP("198.51.100.9"), verdict("tenant", "acme", map[string]string{"tenant": "acme"})}
	r := open(t, list(t, entries...), func(c *Config) {
		c.Ruling.Rules = parsed(t, rules+"\n")
		c.Ruling.RequestID = "X-Weir-Request"
	})
	refused := 0
	for _, edge := range []string{"127.0.0.1:5000", "10.0.0.1:5000", "198.51.100.9:5000", "198.51.100.10:5000"} {
		for _, sender := range []string{"203.0.113.66", "203.0.113.7", "10.9.9.9", "::ffff:203.0.113.66"} {
			for _, forwarded := range []string{"", "203.0.113.66", "203.0.113.7", "203.0.113.66, 10.1.1.1", "unknown"} {
				for _, tenant := range []string{"", "acme"} {
					headers := map[string]string{"x-forwarded-for": forwarded, "tenant": tenant, "user-agent": "curl", "x-real-ip": "203.0.113.66"}
					one, other := httptest.NewRecorder(), httptest.NewRecorder()
					r.CheckFor(one, &EdgeRequest{Edge: edge, Sender: netip.MustParseAddr(sender), Method: "GET", Host: "shop.example", Target: "/a?b",
						Header: func(name string) string { return headers[name] }})

					q := httptest.NewRequest(http.MethodGet, "/v1/check/envoy/a?b", nil)
					q.Host, q.RemoteAddr = "shop.example", edge
					for name, value := range headers {
						if value != "" {
							q.Header.Set(name, value)
						}
					}
					chain := sender // as Envoy appends it with use_remote_address
					if forwarded != "" {
						chain = forwarded + ", " + sender
					}
					q.Header.Set("X-Forwarded-For", chain)
					r.ServeHTTP(other, q)
					if one.Code != other.Code || one.Body.String() != other.Body.String() || !reflect.DeepEqual(one.Header(), other.Header()) {
						t.Errorf("%s, %s, %q, %q: %d %v, over HTTP %d %v", edge, sender, forwarded, tenant, one.Code, one.Header(), other.Code, other.Header())
					}
					if one.Code == http.StatusTooManyRequests {
						refused++
					}
				}
			}
		}
	}
	if refused < 40 || refused > 140 {
		t.Errorf("%d of 160 are refused", refused)
	}
}
