package rule_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// valueOf is what a rule counts of a request.
func valueOf(t *testing.T, rules string, r request.Request) (value, of uint64, ok bool) {
	t.Helper()
	set := mustParse(t, rules)
	if !r.IP.IsValid() {
		r.IP = netip.MustParseAddr("203.0.113.7")
	}
	hits := set.NewJudge().Hits(&r)
	if len(hits) == 0 {
		return 0, 0, false
	}
	return hits[0].Value, set.ValuesOf()[0], true
}

const byPath = "rules: [{name: a, key: ip, distinct: path, limits: [200/hour]}]"

// A value is the same at every collector and after every restart, and another for another value or other fields. It never
// changes.
func TestValues(t *testing.T) {
	value, of, _ := valueOf(t, byPath, request.Request{Path: "/a"})
	if value != 0x9558b9b0baa0daae || of != 0xb00f07be4b3a690b {
		t.Errorf("the value is %#x of %#x", value, of)
	}
	same, _, _ := valueOf(t, byPath, request.Request{Path: "/b/%2e%2e/a"})
	if same != value {
		t.Error("another spelling of the path is another value")
	}
	for name, other := range map[string][2]string{
		"another path":  {byPath, "/b"},
		"another field": {"rules: [{name: a, key: ip, distinct: [path, host], limits: [200/hour]}]", "/a"},
		"another key":   {"rules: [{name: a, key: host, distinct: path, limits: [200/hour]}]", "/a"},
	} {
		if got, _, ok := valueOf(t, other[0], request.Request{Path: other[1], Host: "h"}); !ok || got == value {
			t.Errorf("%s: %#x, %v", name, got, ok)
		}
	}
	if _, _, ok := valueOf(t, "rules: [{name: a, key: ip, distinct: user, limits: [200/hour]}]", request.Request{Path: "/a"}); ok {
		t.Error("a request without the field counts")
	}
	if set := mustParse(t, "rules: [{name: a, key: ip, limits: [1/s]}]"); set.ValuesOf() != nil {
		t.Error("a set without different values has some")
	}
}

// With a secret file the hashes of values are keyed: no one else can make two values with one hash. Its values are others,
// and said to be.
func TestValuesAreKeyed(t *testing.T) {
	plain, plainOf, _ := valueOf(t, byPath, request.Request{Path: "/a"})
	seen := map[uint64]bool{plain: true, plainOf: true}
	for _, key := range []string{"0123456789abcdef", "0123456789abcdeg"} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		value, of, ok := valueOf(t, byPath+"\nsecret_file: "+file, request.Request{Path: "/a"})
		if !ok || seen[value] || seen[of] {
			t.Errorf("%#x of %#x, %v", value, of, ok)
		}
		seen[value], seen[of] = true, true
	}
}

func TestLimitsOfDifferentValuesInWords(t *testing.T) {
	for distinct, want := range map[string]string{
		"path": "200 different paths within an hour", "ip/24": "200 different networks within an hour", "ip": "200 different addresses within an hour",
		"user": "200 different users within an hour", "[host, path]": "200 different values of host and path within an hour",
		"tenant": "200 different values of tenant within an hour",
	} {
		set := mustParse(t, "rules: [{name: a, key: method, distinct: "+distinct+", limits: [200/hour]}]")
		if got := set.Rules[0].Limits[0].Text; got != want {
			t.Errorf("%s: %s, want %s", distinct, got, want)
		}
	}
	set := mustParse(t, "rules: [{name: a, key: ip, distinct: path, limits: [1/min, 3/90m, 40/30d]}]")
	for i, want := range []string{"1 different path within a minute", "3 different paths within 90 minutes", "40 different paths within 30 days"} {
		if got := set.Rules[0].Limits[i].Text; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The addresses of a network may be different ones, and so can be counted. All else that is in the key has one value.
func TestAddressesOfANetworkAreDifferentValues(t *testing.T) {
	for text, counted := range map[string]bool{
		"key: ip/24+56, distinct: ip": true, "key: ip/24, distinct: ip": true, "key: [method, ip/16+32], distinct: [ip/24+48, path]": true,
		"key: ip, distinct: ip": false, "key: ip, distinct: ip/24+48": false, "key: ip/24+56, distinct: ip/16+48": false, "key: [ip/24, path], distinct: path": false,
	} {
		_, warnings, err := rule.Parse("f", []byte("rules: [{name: a, "+text+", limits: [20/30d]}]"))
		if counted && err != nil || !counted && (err == nil || !strings.Contains(err.Error(), "is in the key")) {
			t.Errorf("%s: %v", text, err)
		}
		if counted && (len(warnings) != 1 || warnings[0].Remedy != "write a longer block") { // until: clear does not go together with distinct
			t.Errorf("%s: %v", text, warnings)
		}
	}
	value := func(ip string) uint64 {
		v, _, _ := valueOf(t, "rules: [{name: a, key: ip/24+56, distinct: ip, limits: [200/hour]}]", request.Request{IP: netip.MustParseAddr(ip)})
		return v
	}
	if value("203.0.113.7") == value("203.0.113.8") || value("2001:db8::1") != value("2001:db8::2") || value("2001:db8::1") == value("2001:db8:0:1::1") {
		t.Error("the values are others")
	}
}

func TestDistinctChangesTheFingerprint(t *testing.T) {
	seen := map[string]bool{}
	for _, rules := range []string{"rules: [{name: a, key: ip, limits: [200/hour]}]", byPath, "rules: [{name: a, key: ip, distinct: [path, host], limits: [200/hour]}]"} {
		seen[mustParse(t, rules).Fingerprint()] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d fingerprints", len(seen))
	}
	reads := mustParse(t, byPath).Reads()
	if len(reads) != 2 || reads[0] != "ip" || reads[1] != "path" {
		t.Errorf("it reads %v", reads)
	}
}

// A rule counts different values to the end: the same path over and over breaks nothing.
func TestARuleOfDifferentValues(t *testing.T) {
	set := mustParse(t, "rules: [{name: a, key: ip, distinct: path, limits: [2/hour]}]")
	policy, err := set.Rules[0].Policy(time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	judge := set.NewJudge()
	var s window.State
	for i, path := range []string{"/a", "/b", "/a", "/a", "/b", "/c"} {
		r := request.Request{UnixMilli: int64(i), IP: netip.MustParseAddr("203.0.113.7"), Path: path}
		for _, h := range judge.Hits(&r) {
			o := policy.HitValue(&s, r.UnixMilli, h.Value)
			if broke := o.Event == window.Broke; broke != (path == "/c") {
				t.Errorf("request %d: %+v", i, o)
			}
		}
	}
}

// A limit above those that are exact is of an estimate: its block waits for late requests, as long as the rule says. With
// secret_file no client knows the values.
func TestARuleOfEstimatedValues(t *testing.T) {
	const byMany = "rules: [{name: a, key: ip, distinct: path, limits: [5000/hour], late: 1m}]"
	set := mustParse(t, byMany)
	r := set.Rules[0]
	if !r.EstimatesValues() || r.HidesValues() || r.Late(time.Hour) != time.Minute || r.Late(time.Second) != time.Second {
		t.Errorf("estimates %v, late %v", r.EstimatesValues(), r.Late(time.Hour))
	}
	if hidden, _, err := rule.Parse("f", []byte(byMany+"\nsecret_file: testdata/hash.key")); err != nil || !hidden.Rules[0].HidesValues() {
		t.Error(err)
	}
	plain := mustParse(t, strings.Replace(byMany, ", late: 1m", "", 1))
	if plain.Rules[0].Late(time.Hour) != time.Hour || plain.Fingerprint() == set.Fingerprint() {
		t.Errorf("without late it is %v", plain.Rules[0].Late(time.Hour))
	}
	if exact := mustParse(t, byPath).Rules[0]; exact.EstimatesValues() {
		t.Error("200 are estimated")
	}

	policy, err := r.Policy(time.Hour, 0)
	if err != nil || !policy.Estimates() {
		t.Fatal(err)
	}
	judge := set.NewJudge()
	var s window.State
	for i := range 5600 {
		for _, path := range []string{fmt.Sprint("/", i), "/a"} {
			one := request.Request{UnixMilli: int64(i), IP: netip.MustParseAddr("203.0.113.7"), Path: path}
			for _, h := range judge.Hits(&one) {
				if o := policy.HitValue(&s, one.UnixMilli, h.Value); o.Event != window.Counted {
					t.Fatalf("request %d: %+v", i, o)
				}
			}
		}
	}
	const end = 3_600_000/16 - 1
	if o := policy.Judge(&s, end+60_000); o.Event != window.Counted {
		t.Errorf("%+v", o)
	}
	if o := policy.Judge(&s, end+60_001); o.Event != window.Broke || o.From != end+60_001 || o.Count < 5200 || o.Count > 6000 {
		t.Errorf("%+v", o)
	}
}

func TestValuesAllocateNothing(t *testing.T) {
	for _, rules := range []string{byPath, byPath + "\nsecret_file: testdata/hash.key"} {
		set, _, err := rule.Parse("f", []byte(rules))
		if err != nil {
			t.Fatal(err)
		}
		judge := set.NewJudge()
		r := request.Request{IP: netip.MustParseAddr("203.0.113.7"), Path: "/a/long/path/of/some/page.html?with=query"}
		judge.Hits(&r)
		if n := testing.AllocsPerRun(100, func() { judge.Hits(&r) }); n > 0 {
			t.Errorf("%v allocations for a request", n)
		}
	}
}

func BenchmarkValue(b *testing.B) {
	for name, rules := range map[string]string{"plain": "rules: [{name: a, key: ip, limits: [200/hour]}]", "distinct": byPath, "keyed": byPath + "\nsecret_file: testdata/hash.key"} {
		b.Run(name, func(b *testing.B) {
			set, _, err := rule.Parse("f", []byte(rules))
			if err != nil {
				b.Fatal(err)
			}
			judge := set.NewJudge()
			r := request.Request{IP: netip.MustParseAddr("203.0.113.7"), Path: "/a/long/path/of/some/page.html?with=query"}
			b.ReportAllocs()
			for range b.N {
				judge.Hits(&r)
			}
		})
	}
}

// With secret: true, evidence is without the values of a secret field that is counted.
func TestSecretFieldsThatAreCounted(t *testing.T) {
	set, warnings, err := rule.Parse("f", []byte("rules: [{name: a, key: ip, distinct: http_authorization, limits: [20/hour], secret: true}]\nsecret_file: testdata/hash.key"))
	if err != nil || len(warnings) > 0 || !set.Hides("http_authorization") {
		t.Errorf("%v, %v", err, warnings)
	}
	if _, _, err := rule.Parse("f", []byte("rules: [{name: a, key: ip, distinct: path, limits: [20/hour], secret: true}]\nsecret_file: testdata/hash.key")); err == nil {
		t.Error("secret: true is taken where nothing is secret")
	}
}
