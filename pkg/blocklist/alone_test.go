package blocklist

import (
	"strings"
	"testing"

	"weir/internal/keytext"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// The key of a text is the key that the rules make of it.
func TestKeysOfTextsAreTheRules(t *testing.T) {
	key, err := rule.ParseKey("user")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"alice", `DOMAIN\alice`, "a b", "ä\x00\xff…#", "\u2028", "\ufffd", strings.Repeat("x", 256), strings.Repeat("x", 257),
		strings.Repeat("ä", 200), strings.Repeat(`\`, 150), "xx" + strings.Repeat("\x01", 100), strings.Repeat("€", 100)} {
		want, ok := key.Append(nil, &request.Request{User: text})
		if got := string(keytext.Cut(keytext.Append([]byte("before"), text, false), len("before"))); !ok || got != "before"+string(want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if keytext.IsPlain(text) && text != string(want) {
			t.Errorf("%q is no key", text)
		}
	}
}

func TestCheckAloneAsksEveryRule(t *testing.T) {
	s := wholeSet(t)
	fields := func(rule, key string, names ...string) *Entry {
		e := verdict(key)
		e.Rule, e.Fields = rule, map[string]string{}
		for _, name := range names {
			e.Fields[name] = key
		}
		return e
	}
	for i, e := range []*Entry{fields("per-ip", "1.1.1.1", "ip"), fields("per-net", "2.2.2.0/24", "ip"), fields("per-net", "2001:db8::/56", "ip"),
		fields("per-user", `DOMAIN\\alice`, "user"), fields("per-tenant", "acme", "tenant"), fields("login", "bob /login", "user", "path")} {
		if err := s.Apply(at, record(t, int64(10+i), e)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		asked Asked
		rule  string
	}{
		"an address":         {Asked{IP: parsed("1.1.1.1")}, "per-ip"},
		"IPv4 in IPv6":       {Asked{IP: parsed("::ffff:1.1.1.1")}, "per-ip"},
		"in a network":       {Asked{IP: parsed("2.2.2.200")}, "per-net"},
		"in an IPv6 network": {Asked{IP: parsed("2001:db8:0:ff::1")}, "per-net"},
		"beside it":          {Asked{IP: parsed("2001:db8:0:100::1")}, ""},
		"a user":             {Asked{User: `DOMAIN\alice`}, "per-user"},
		"a field":            {Asked{Fields: []Field{{"tenant", "acme"}}}, "per-tenant"},
		"several fields":     {Asked{User: "bob /login"}, ""},
		"an order":           {Asked{IP: parsed("10.2.2.2")}, "manual"},
		"nobody":             {Asked{}, ""},
	} {
		got := s.CheckAlone(&test.asked, at, nil).Entry
		if got.Found() != (test.rule != "") || got.Found() && got.Rule() != test.rule {
			t.Errorf("%s: %v", name, got.Found())
		}
	}
	others := func(rule string) bool { return rule != "per-ip" }
	if s.CheckAlone(&Asked{IP: parsed("1.1.1.1")}, at, others).Entry.Found() {
		t.Error("a rule counts that does not")
	}
}
