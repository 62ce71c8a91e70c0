package rule_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/pkg/geoip"
	"weir/pkg/geoip/geoiptest"
	"weir/pkg/request"
	"weir/pkg/rule"
)

type entries = map[string]geoiptest.Entry

func database(t testing.TB, networks entries) *geoip.Database {
	t.Helper()
	d, err := geoip.Read("test.mmdb", geoiptest.Bytes(t, 1, networks))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestHitsByPlace(t *testing.T) {
	const rules = `
rules:
  - {name: asn, key: asn, limits: [1/s]}
  - {name: name, key: [as_name, method], limits: [1/s]}
  - {name: country, key: country, limits: [1/s], match: 'asn == 64500 or country in ["FR", "NL"]'}
  - {name: city, key: city, limits: [1/s]}
  - {name: addresses, key: asn, distinct: ip/24, limits: [3/hour]}
  - {name: machine, key: ip, limits: [1/s], match: 'let asn = fields.country + country; asn == "logDE"', cost: 'asn / 64500'}
allow:
  - {match: 'as_name startsWith "Own"', note: our networks}
`
	set := mustParse(t, rules).Located(geoip.Join(database(t, entries{
		"203.0.113.0/24": {ASN: 64500, Name: "An Example", Country: "DE"}, "198.51.100.0/24": {ASN: 64501, Name: "Own"}, "2001:db8::/32": {Country: "FR"},
	})))
	judge := set.NewJudge()
	fields := []request.Field{{Name: "country", Value: "log"}, {Name: "asn", Value: "log"}, {Name: "city", Value: "log"}}
	const one = "asn=64500×1 name=An\\x20Example GET×1 country=DE×1 city=log×1 addresses=64500×1 machine=203.0.113.7×1"
	for _, test := range []struct{ ip, want string }{
		{"203.0.113.7", one},
		{"203.0.113.7", one},
		{"198.51.100.7", "asn:allowed name:allowed country:allowed city:allowed addresses:allowed machine:allowed"},
		{"2001:db8::1", "country=FR×1 city=log×1 asn:key name:key addresses:key machine:match"},
		{"192.0.2.1", "city=log×1 asn:key name:key country:match addresses:key machine:match"},
		{"::ffff:203.0.113.7", one},
		{"", "city=log×1 asn:key name:key country:match addresses:key machine:match"},
	} {
		r := sample()
		r.Fields, r.IP = fields, netip.Addr{}
		if test.ip != "" {
			r.IP = netip.MustParseAddr(test.ip)
		}
		if got := judged(judge, set, r); got != test.want {
			t.Errorf("%s: %s, want %s", test.ip, got, test.want)
		}
	}

	reads := set.Reads()
	if !slices.Contains(reads, "ip") || slices.Contains(reads, "asn") || slices.Contains(reads, "as_name") || !slices.Contains(reads, "city") {
		t.Errorf("reads %q", reads)
	}
	for _, asked := range set.Asks() {
		if asked.Field == "asn" || asked.Field == "as_name" {
			t.Errorf("%+v", asked)
		}
	}
}

// The condition of a share reads the databases as a match does, also if nothing else of the rules does.
func TestSharesByPlace(t *testing.T) {
	set := mustParse(t, "rules: [{name: a, key: user, share: {of: 'asn == 64500', over: 50%, least: 4, within: 1m}}]")
	if set.Unlocated() == nil {
		t.Error("a share that needs a database is taken without")
	}
	judge := set.Located(geoip.Join(database(t, entries{"203.0.113.0/24": {ASN: 64500}}))).NewJudge()
	for ip, want := range map[string]uint64{"203.0.113.7": 1, "192.0.2.1": 0} {
		r := sample()
		r.IP = netip.MustParseAddr(ip)
		if hits := judge.Hits(r); len(hits) != 1 || hits[0].Value != want {
			t.Errorf("%s: %+v, want the value %d", ip, hits, want)
		}
	}
}

// Without a database, the names are those of further fields of the log in keys.
func TestKeysWithoutDatabases(t *testing.T) {
	set := mustParse(t, `rules: [{name: a, key: [country, asn], limits: [1/s]}, {name: b, key: ip, match: 'let country = fields.country; country == "log"', limits: [1/s]}]`)
	r := sample()
	r.Fields = []request.Field{{Name: "country", Value: "log"}, {Name: "asn", Value: "7"}}
	if got := judged(set.NewJudge(), set, r); got != "a=log 7×1 b=203.0.113.7×1" {
		t.Error(got)
	}
	if set.GeoIP() != nil || !slices.Contains(set.Reads(), "asn") || set.Unlocated() != nil {
		t.Errorf("%v %q %v", set.GeoIP(), set.Reads(), set.Unlocated())
	}
}

func TestSecretKeysByPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "key"), []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, _, err := rule.Parse(file, []byte("secret_file: key\nrules: [{name: a, key: [user, asn], secret: true, limits: [1/s]}]"))
	if err != nil {
		t.Fatal(err)
	}
	set := plain.Located(geoip.Join(database(t, entries{"203.0.113.0/24": {ASN: 64500}})))
	hits := set.NewJudge().Hits(sample())
	if len(hits) != 1 || string(hits[0].Key) != set.HiddenValue("user", "alice")+" "+set.HiddenValue("asn", "64500") {
		t.Errorf("%+v", hits)
	}
}

// A fingerprint is of the contents of the databases that rules use, and of no others.
func TestFingerprintsOfPlaces(t *testing.T) {
	asn, asn2 := database(t, entries{"203.0.113.0/24": {ASN: 1}}), database(t, entries{"203.0.113.0/24": {ASN: 2}})
	country, country2 := database(t, entries{"203.0.113.0/24": {Country: "DE"}}), database(t, entries{"203.0.113.0/24": {Country: "FR"}})
	for text, uses := range map[string][2]bool{
		"{name: a, key: ip, limits: [1/s]}":                                                       {false, false},
		"{name: a, key: asn, limits: [1/s]}":                                                      {true, false},
		"{name: a, key: ip, distinct: country, limits: [1/s]}":                                    {false, true},
		"{name: a, key: ip, limits: [1/s], match: 'fields.asn == \"1\"'}":                         {false, false},
		"{name: a, key: ip, limits: [1/s], match: 'asn == 1 or country == \"DE\"'}":               {true, true},
		"{name: a, key: ip, limits: [1/s], cost: 'country == \"DE\" ? 2 : 1'}":                    {false, true},
		"{name: a, key: user, share: {of: 'country == \"DE\"', over: 50%, least: 4, within: 1m}}": {false, true},
		"{name: a, key: ip, limits: [1/s]}\nallow:\n  - {match: 'asn == 1', ip: 10.0.0.0/8}":      {true, false},
	} {
		set := mustParse(t, "rules:\n  - "+text)
		of := func(all ...*geoip.Database) string { return set.Located(geoip.Join(all...)).Fingerprint() }
		first := of(asn, country)
		if got := of(asn2, country) != first; got != uses[0] {
			t.Errorf("%s: another asn.mmdb is another fingerprint: %v", text, got)
		}
		if got := of(asn, country2) != first; got != uses[1] {
			t.Errorf("%s: another country.mmdb is another fingerprint: %v", text, got)
		}
		if any := uses[0] || uses[1]; (first != set.Fingerprint()) != any || (set.Located(geoip.Join(asn, country)).Shadowed().GeoIP() != nil) != any {
			t.Errorf("%s: with and without databases the fingerprint is another: want %v", text, any)
		}
	}
}

func TestCheckOfPlaces(t *testing.T) {
	asn, country := database(t, entries{"203.0.113.0/24": {ASN: 1}}), database(t, entries{"203.0.113.0/24": {Country: "DE"}})
	const remedy = "as geoip: {databases: [asn.mmdb]} in weir.yaml"
	for _, test := range []struct {
		rule    string
		fields  rule.Fields
		places  *geoip.Databases
		warning string
		fault   string
	}{
		{"key: asn", rule.Fields{}, nil, remedy, ""},
		{"key: asn", rule.Fields{}, geoip.Join(), "asn is read as a further field of that name", ""},
		{"key: asn", rule.Fields{}, geoip.Join(country), "the databases there have country", ""},
		{"key: asn", rule.Fields{}, geoip.Join(asn), "", ""},
		{"key: asn", rule.Fields{Names: []string{"ip", "asn"}, Complete: true}, geoip.Join(), "", ""},
		{"key: asn", rule.Fields{Names: []string{"ip", "user"}, Complete: true}, geoip.Join(), "no source has the field asn; the sources have ip, user; for that of the client's address name a file that has it, " + remedy, ""},
		{"key: ip, distinct: asn", rule.Fields{Names: []string{"ip"}, Complete: true}, geoip.Join(asn), "", ""},
		{"key: asn, on: blocked, distinct: ip", rule.Fields{}, nil, "without a database no block has the field asn, and the rule blocks nothing", ""},
		{"key: asn, on: blocked, distinct: ip", rule.Fields{Names: []string{"ip", "asn"}}, geoip.Join(country), "the databases there have country", ""},
		{"key: asn, on: blocked, distinct: ip", rule.Fields{Names: []string{"ip"}, Complete: true}, geoip.Join(asn), "", ""},
		{"key: country_code", rule.Fields{}, geoip.Join(country), "did you mean country?", ""},
		{"key: client_ip", rule.Fields{}, nil, "did you mean ip?", ""},
		{"key: fields.tenant", rule.Fields{}, nil, "fields.tenant is read as a further field of that name; did you mean tenant?", ""},
		{"key: ip, match: 'fields[\"fields.tenant\"] == \"x\"'", rule.Fields{}, nil, "", ""},
		{"key: X-API-Key", rule.Fields{}, nil, "did you mean http_x_api_key?", ""},
		{"key: ip, match: 'asn == 1'", rule.Fields{}, nil, "", ""},
		{"key: ip, match: 'asn == 1'", rule.Fields{}, geoip.Join(asn), "", ""},
		{"key: ip, match: 'asn == 1'", rule.Fields{}, geoip.Join(country), "", "no database has the field asn; name a file that has it, " + remedy},
		{"key: ip, match: 'asn == 1 and city == \"x\" and path == /x'", rule.Fields{}, geoip.Join(), "", `unexpected "/"`},
		{"key: ip, match: 'contry == \"DE\" and acn == 1'", rule.Fields{}, geoip.Join(), "", "did you mean country?"},
		{"key: ip, match: 'contry == \"DE\" and acn == 1'", rule.Fields{}, geoip.Join(), "", "did you mean asn?"},
		{"key: ip, match: 'country == 1'", rule.Fields{}, geoip.Join(country), "", "mismatched types string and int"},
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "rules.yaml"), []byte("rules:\n  - {name: a, limits: [1/s], "+test.rule+"}\n  - {name: b, key: ip, limits: [1/s]}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		source := rule.Source{Patterns: []string{"rules.yaml"}, Fields: test.fields, GeoIP: test.places}
		_, warnings, err := source.Load(folder)
		said := ""
		for _, warning := range warnings {
			said += warning.String() + "\n"
		}
		if !strings.Contains(said, test.warning) || test.warning == "" && said != "" {
			t.Errorf("%s: warns %q, want %q", test.rule, said, test.warning)
		}
		if (err != nil) != (test.fault != "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: %v, want %q", test.rule, err, test.fault)
		}
	}
	if err := mustParse(t, "rules: [{name: a, key: ip, limits: [1/s], match: 'asn == 1'}]").Unlocated(); err == nil {
		t.Error("rules that need a database are taken without")
	}
}

func TestPlacesAllocateNothing(t *testing.T) {
	set := mustParse(t, `rules: [{name: a, key: [asn, country], limits: [1/s], match: 'country in ["DE", "FR"] and asn > 0'}]`)
	judge, r := set.Located(geoip.Join(database(t, entries{"203.0.113.0/24": {ASN: 64500, Country: "DE"}}))).NewJudge(), sample()
	if len(judge.Hits(r)) != 1 {
		t.Fatal("no hit")
	}
	if n := testing.AllocsPerRun(100, func() { r.IP = r.IP.Next(); judge.Hits(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
