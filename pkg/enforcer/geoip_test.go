package enforcer

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/pkg/geoip"
	"weir/pkg/geoip/geoiptest"
	"weir/pkg/rule"
)

// A check has the key of its address in the enforcer's databases, and never one that a header names. Without a database
// no one is refused by such a key.
func TestChecksByPlace(t *testing.T) {
	database := func(networks map[string]geoiptest.Entry) *geoip.Databases {
		d, err := geoip.Read("test.mmdb", geoiptest.Bytes(t, 1, networks))
		if err != nil {
			t.Fatal(err)
		}
		return geoip.Join(d)
	}
	same := database(map[string]geoiptest.Entry{"203.0.113.0/24": {ASN: 64500, Name: "A B"}, "198.51.100.0/24": {ASN: 64501}, "192.0.2.0/24": {Name: "Own"}})
	moved := database(map[string]geoiptest.Entry{"203.0.113.0/25": {ASN: 64500}, "203.0.113.128/25": {ASN: 64502}, "192.0.2.0/24": {ASN: 64500, Name: "Own"}})
	plain, _, err := rule.Parse("rules.yaml", []byte(`
rules:
  - {name: by-network, key: asn, limits: [10/min]}
  - {name: by-name, key: [as_name, method], limits: [10/min], match: 'asn == 64500', block: {covers: match}}
allow: [{match: 'as_name == "Own"', ip: 192.0.2.0/24}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]struct {
		databases *geoip.Databases
		refused   map[string]string // by client
	}{
		"the same":      {same, map[string]string{"203.0.113.7": "refused by-network", "203.0.113.200": "refused by-network"}},
		"another build": {moved, map[string]string{"203.0.113.7": "refused by-network"}},
	} {
		set := list(t, verdict("by-network", "64500", map[string]string{"asn": "64500"}))
		r := start(t, set, func(c *Config) { c.Ruling.Rules = plain.Located(of.databases) })
		for _, client := range []string{"203.0.113.7", "203.0.113.200", "198.51.100.7", "192.0.2.7", "10.1.1.1", "2001:db8::1"} {
			got := r.get("/v1/check", "X-Forwarded-For", client, "X-Forwarded-Method", "GET", "Asn", "64500", "As-Name", "Own")
			if mark := got.Header.Get(markField); mark != of.refused[client] {
				t.Errorf("%s, %s: %q, want %q", name, client, mark, of.refused[client])
			}
		}
		r.stop()
	}

	byName := list(t, verdict("by-name", `A\x20B GET`, map[string]string{"as_name": "A B", "method": "GET"}))
	r := start(t, byName, func(c *Config) { c.Ruling.Rules = plain.Located(same) })
	if mark := r.get("/v1/check", "X-Forwarded-For", "203.0.113.7", "X-Forwarded-Method", "GET").Header.Get(markField); mark != "refused by-name" {
		t.Errorf("by name: %q", mark)
	}
	r.stop()

	r = start(t, list(t, verdict("by-network", "64500", map[string]string{"asn": "64500"})), func(c *Config) { c.Ruling.Rules = plain })
	if mark := r.get("/v1/check", "X-Forwarded-For", "203.0.113.7", "X-Forwarded-Method", "GET").Header.Get(markField); mark != "" {
		t.Errorf("without a database: %q", mark)
	}
}

// A search for an address finds the entries of its network too, and none of other addresses there.
func TestFindByPlace(t *testing.T) {
	d, err := geoip.Read("test.mmdb", geoiptest.Bytes(t, 1, map[string]geoiptest.Entry{"203.0.113.0/24": {ASN: 64500, Name: "A B"}}))
	if err != nil {
		t.Fatal(err)
	}
	rules, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: by-network, key: asn, limits: [10/min]}, {name: both, key: [ip, asn], limits: [10/min]}, {name: per-user, key: user, limits: [10/min]}]"))
	if err != nil {
		t.Fatal(err)
	}
	both := func(ip string) *blocklist.Entry {
		return verdict("both", ip+" 64500", map[string]string{"ip": ip, "asn": "64500"})
	}
	entries := list(t, verdict("by-network", "64500", map[string]string{"asn": "64500"}), verdict("by-network", "64501", map[string]string{"asn": "64501"}),
		both("203.0.113.7"), both("203.0.113.8"), verdict("per-user", "64500", map[string]string{"user": "64500"}), ofIP("203.0.113.7"))
	r := start(t, entries, func(c *Config) { c.Ruling.Rules = rules.Located(geoip.Join(d)) })
	for key, want := range map[string]string{
		"203.0.113.9": "nothing on the list holds 203.0.113.9. It is refused because of asn:64500, by by-network: unblock that, or allow the address for a while",
		"192.0.2.1":   `holds 192.0.2.1"`,
	} {
		if got := r.ask(r.overSocket(), "DELETE", "/v1/blocks?why=w&key="+key, ""); got.status != 404 || !strings.Contains(got.body, want) {
			t.Errorf("an unblock of %s: %d %s", key, got.status, got.body)
		}
	}
	for key, want := range map[string]string{
		"203.0.113.7":        "64500, 203.0.113.7 64500, 203.0.113.7",
		"203.0.113.9":        "64500",
		"::ffff:203.0.113.9": "64500",
		"asn:64501":          "64501",
		"192.0.2.1":          "",
	} {
		var found struct{ Entries []struct{ Key string } }
		r.get("/v1/find?key="+url.QueryEscape(key)).read(t, &found)
		var keys []string
		for _, entry := range found.Entries {
			keys = append(keys, entry.Key)
		}
		slices.SortFunc(keys, func(a, b string) int { return len(b) - len(a) })
		sorted := strings.Split(want, ", ")
		slices.SortFunc(sorted, func(a, b string) int { return len(b) - len(a) })
		if got := strings.Join(keys, ", "); got != strings.Join(sorted, ", ") {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}
