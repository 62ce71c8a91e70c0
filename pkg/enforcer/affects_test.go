package enforcer

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An order with effects beyond a narrow one's shows them, and needs a confirmation.
func TestWideAndDangerousOrdersWantAConfirmation(t *testing.T) {
	for _, test := range []struct {
		path, target, wants string // empty: no confirmation
	}{
		{"/v1/blocks", "0.0.0.0/0", "every address of IPv4; your own address, 198.51.100.9; this machine itself (loopback, 127.0.0.0/8), "},
		{"/v1/blocks", "::/0", "every address of IPv6; every address of IPv4, which some edges that keep the list look up as ::ffff:0:0/96; this machine itself (loopback, ::1/128), "},
		{"/v1/blocks", "::ffff:0:0/96", "every address of IPv4; "},
		{"/v1/blocks", "::ffff:0:0/95", "every address of IPv4, which some edges"},
		{"/v1/blocks", "::8000:0:0/81", "every address of IPv4, which some edges"},
		{"/v1/blocks", "::fffc:0:0/95", ""},
		{"/v1/allows", "::ffff:0:0/95", "every address of IPv4, which some edges"},
		{"/v1/blocks", "128.0.0.0/7", "33554432 addresses"},
		{"/v1/blocks", "128.0.0.0/8", ""},
		{"/v1/blocks", "2000::/18", "2^110 addresses, 1 in 262144 of IPv6"},
		{"/v1/blocks", "2001::/19", ""},
		{"/v1/blocks", "127.0.0.1", "this machine itself"},
		{"/v1/blocks", "::1", "this machine itself"},
		{"/v1/blocks", "10.1.2.3", "the trusted proxies 10.0.0.0/8, and everyone behind them"},
		{"/v1/blocks", "198.51.100.9", "your own address, 198.51.100.9"},
		{"/v1/blocks", "198.51.100.0/24", "your own address, 198.51.100.9"},
		{"/v1/blocks", "198.51.100.10", ""},
		{"/v1/blocks", "method:GET", "every request of the method GET"},
		{"/v1/blocks", "method:TRACE", ""},
		{"/v1/blocks", "path:/", "every request for the path /"},
		{"/v1/blocks", "user:alice", ""},
		{"/v1/allows", "0.0.0.0/0", "every address of IPv4"},
		{"/v1/allows", "10.1.2.3", ""},
		{"/v1/allows", "method:GET", "every request of the method GET"},
	} {
		r := keyed(t, list(t))
		give := func(body string) answer {
			return r.ask(r.client, "POST", test.path, body, "X-Api-Key", "write", "X-Forwarded-For", "198.51.100.9")
		}
		got := give(fmt.Sprintf(`{"target":%q,"why":"w"}`, test.target))
		if test.wants == "" {
			if got.status != http.StatusCreated || strings.Contains(got.body, "affects") {
				t.Errorf("%s %s: %d %s", test.path, test.target, got.status, got.body)
			}
			continue
		}
		if got.status != http.StatusPreconditionRequired || !strings.Contains(got.body, test.wants) || !strings.Contains(got.body, `\"confirm\": true`) {
			t.Errorf("%s %s: %d %s", test.path, test.target, got.status, got.body)
		}
		for range r.config.Set.Orders(0) {
			t.Errorf("%s %s is ordered without a confirmation", test.path, test.target)
		}
		if got := give(fmt.Sprintf(`{"target":%q,"why":"w","confirm":false}`, test.target)); got.status != http.StatusPreconditionRequired {
			t.Errorf("%s %s, not confirmed: %d %s", test.path, test.target, got.status, got.body)
		}
		if got := give(fmt.Sprintf(`{"target":%q,"why":"w","confirm":true}`, test.target)); got.status != http.StatusCreated || !strings.Contains(got.body, `"affects":["`) {
			t.Errorf("%s %s, confirmed: %d %s", test.path, test.target, got.status, got.body)
		}
	}
}

// An order for a method in lower case would refuse no request: checks have methods in upper case.
func TestOrdersOfMethodsInUpperCaseOnly(t *testing.T) {
	r := keyed(t, list(t))
	for _, method := range []string{"get", "Put"} {
		got := r.ask(r.client, "POST", "/v1/blocks", `{"target":"method:`+method+`","why":"w"}`, "X-Api-Key", "write")
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, "write method:"+strings.ToUpper(method)) {
			t.Errorf("%s: %d %s", method, got.status, got.body)
		}
	}
	if got := r.order("POST", "/v1/blocks", `{"target":"method:PUT","why":"w"}`); got.status != http.StatusCreated {
		t.Fatal(got)
	}
	for _, method := range []string{"PUT", "put"} {
		got := r.ask(r.client, "GET", "/v1/check/traefik", "", "X-Forwarded-For", "203.0.113.7", "X-Forwarded-Method", method, "X-Forwarded-Uri", "/")
		if got.status != http.StatusTooManyRequests {
			t.Errorf("%s is let through: %d", method, got.status)
		}
	}
}

// An unblock that also allows everything needs a confirmation.
func TestAllowingEverythingWithAnUnblockWantsAConfirmation(t *testing.T) {
	r := keyed(t, list(t, ofIP("203.0.113.7")))
	if got := r.order("DELETE", "/v1/blocks?key=0.0.0.0/0&why=w&allow=4h", ""); got.status != http.StatusPreconditionRequired || r.checks("203.0.113.7").status != http.StatusTooManyRequests {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := r.order("DELETE", "/v1/blocks?key=0.0.0.0/0&why=w&allow=4h&confirm=perhaps", ""); got.status != http.StatusBadRequest {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := r.order("DELETE", "/v1/blocks?key=0.0.0.0/0&why=w&allow=4h&confirm=true", ""); got.status != http.StatusOK || r.checks("203.0.113.7").status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// The answer to a block that checks here ignore reports that.
func TestABlockThatChecksLetThroughIsAnsweredSo(t *testing.T) {
	const body = `{"target":"10.1.2.3","why":"w","confirm":true}`
	r := keyed(t, list(t))
	if got := r.order("POST", "/v1/blocks", body); strings.Contains(got.body, `"passes":`) || !strings.Contains(got.body, `"note":"client.trusted_proxies has 10.0.0.0/8: `) {
		t.Errorf("%d %s", got.status, got.body)
	}
	for client, want := range map[string]int{"10.1.2.3": 429, "10.1.2.4": 200, "203.0.113.7, 10.1.2.3": 200} {
		if got := r.checks(client); got.status != want {
			t.Errorf("a proxy is blocked, and %s asks: %d, want %d", client, got.status, want)
		}
	}
	if got := r.order("POST", "/v1/blocks", `{"target":"203.0.113.8","why":"w"}`); strings.Contains(got.body, `"passes":`) || r.checks("203.0.113.8").status != http.StatusTooManyRequests {
		t.Errorf("%d %s", got.status, got.body)
	}
	r.order("POST", "/v1/pause", `{"why":"w"}`)
	if got := r.order("POST", "/v1/blocks", `{"target":"203.0.113.9","why":"w"}`); !strings.Contains(got.body, `"passes":"everything is paused`) || r.checks("203.0.113.9").status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
	shadow := start(t, list(t), func(c *Config) { c.Keys, c.Ruling.Shadow = keysFile(t), true })
	if got := shadow.order("POST", "/v1/blocks", `{"target":"203.0.113.8","why":"w"}`); !strings.Contains(got.body, `"passes":"this enforcer is in shadow mode`) || shadow.checks("203.0.113.8").status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A prefix of translators does not refuse clients that checks know by the carried IPv4 address, and the answer reports
// that.
func TestABlockOfATranslatorsPrefixIsAnsweredSo(t *testing.T) {
	for target, client := range map[string]string{"64:ff9b::/96": "64:ff9b::808:808", "2002::/19": "2002:808:808::1", "8.8.8.8": "", "2001:db8::/32": ""} {
		r := keyed(t, list(t))
		got := r.order("POST", "/v1/blocks", fmt.Sprintf(`{"target":%q,"why":"w","confirm":true}`, target))
		if strings.Contains(got.body, "behind a translator") != (client != "") || client != "" && r.checks(client).status != http.StatusOK {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
	}
	r := keyed(t, list(t))
	r.order("POST", "/v1/blocks", `{"target":"64:ff9b::808:808","why":"w"}`)
	if r.checks("8.8.8.8").status != http.StatusTooManyRequests || r.checks("64:ff9b::808:808").status != http.StatusTooManyRequests {
		t.Error("one address of a translator's is not refused")
	}
}

// A body with two members of one name is ambiguous.
func TestDuplicateMembersAreRefused(t *testing.T) {
	r := keyed(t, list(t))
	for _, body := range []string{
		`{"target":"203.0.113.7","target":"203.0.113.8","why":"w"}`, `{"target":"203.0.113.7","Target":"203.0.113.8","why":"w"}`,
		`{"target":"203.0.113.7","why":"w","for":"1h","for":"2h"}`, `{"target":"203.0.113.7","why":"w","WHY":"v"}`, `{"target":"203.0.113.7","why":"w","\u0077hy":"v"}`,
		`{"target":"0.0.0.0/0","why":"w","confirm":false,"confirm":true}`, `{"target":"203.0.113.7","why":"w","why":"w"}`,
	} {
		for _, path := range []string{"/v1/blocks", "/v1/allows", "/v1/pause"} {
			if got := r.order("POST", path, body); got.status != http.StatusBadRequest || !strings.Contains(got.body, "is given twice") {
				t.Errorf("%s %s: %d %s", path, body, got.status, got.body)
			}
		}
	}
	for o := range r.config.Set.Orders(0) {
		t.Errorf("%s %s is ordered", o.Kind, o.Value)
	}
}
