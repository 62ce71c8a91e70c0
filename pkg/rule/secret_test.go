package rule_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/pkg/request"
	"weir/pkg/rule"
)

const hashKey = "0123456789abcdef0123456789abcdef"

// hashed is the hash of a value by hashKey, made in another way than the rules make it.
func hashed(value string) string {
	mac := hmac.New(sha256.New, []byte(hashKey))
	mac.Write([]byte(value))
	return "#" + hex.EncodeToString(mac.Sum(nil))[:20]
}

const secretRules = `
rules:
  - {name: keys, key: http_x_api_key, limits: [10/min], secret: true}
  - {name: both, key: [ip, http_x_api_key, path], limits: [10/min], secret: true}
  - {name: users, key: user, limits: [10/min], secret: true, inline: true, block: {after: 3, within: 1m}}
  - {name: plain, key: ip, limits: [10/min]}
secret_file: testdata/hash.key
`

func withSecret() *request.Request {
	r := sample()
	r.Fields = []request.Field{{Name: "http_x_api_key", Value: "live key-17"}}
	return r
}

func TestSecretKeysAreHashes(t *testing.T) {
	judge, r := mustParse(t, secretRules).NewJudge(), withSecret()
	want := []string{hashed("live key-17"), "203.0.113.7 " + hashed("live key-17") + " /api/orders/17", "203.0.113.7"}
	for i, hit := range judge.Hits(r) {
		if got := string(hit.Key); got != want[i] {
			t.Errorf("%s, want %s", got, want[i])
		}
	}
	if got := string(judge.Inline(r)[0].Key); got != hashed("alice") {
		t.Error(got)
	}
	if n := testing.AllocsPerRun(200, func() { judge.Hits(r); judge.Inline(r) }); n > 0 {
		t.Errorf("%v allocations a request", n)
	}
}

// A key that a person types leads to the same hash, and a hash stays as it is.
func TestTypedSecretsAreHashed(t *testing.T) {
	set := mustParse(t, secretRules)
	for _, test := range []struct {
		rule        int
		typed, want string
	}{
		{0, "live key-17", hashed("live key-17")},
		{0, hashed("x"), hashed("x")},
		{0, `a\b`, hashed(`a\b`)},
		{1, `203.0.113.7 live\x20key-17 /api`, "203.0.113.7 " + hashed("live key-17") + " /api"},
		{2, "alice", hashed("alice")},
		{3, "203.0.113.7", "203.0.113.7"},
	} {
		if got, err := set.Rules[test.rule].Key.Canonical(test.typed); got != test.want || err != nil {
			t.Errorf("%s: %s %v, want %s", test.typed, got, err, test.want)
		}
	}
	if got := set.HiddenKeys("live key-17"); len(got) != 1 || got[0] != hashed("live key-17") {
		t.Error(got)
	}
	if got := set.HiddenKeys("user:alice"); len(got) != 2 || got[0] != "user:"+hashed("alice") {
		t.Error(got)
	}
	if got := set.HiddenKeys("host:a.example"); len(got) != 1 || strings.HasPrefix(got[0], "host") {
		t.Error(got)
	}
	if set.HiddenValue("ip", "203.0.113.7") != "203.0.113.7" || set.HiddenValue("user", hashed("a")) != hashed("a") || set.HiddenValue("user", "a") != hashed("a") {
		t.Error("values")
	}
	if fields := set.Rules[0].Key.Fields(hashed("x")); fields["http_x_api_key"] != hashed("x") {
		t.Error(fields)
	}
}

// A request that is shown has no secret of any rule in its texts.
func TestShownRequestsHaveNoSecrets(t *testing.T) {
	judge := mustParse(t, secretRules).NewJudge()
	r := withSecret()
	if judge.Masked(r).User != hashed("alice") || r.User != "alice" {
		t.Error("the user is shown, or changed")
	}
	for _, test := range []struct{ path, query, agent, shown string }{
		{"/a", "b", "c", "/a ? b ? c"},
		{"/k/live key-17/x", "t=live key-17", "curl live key-17", "/k/***/x ? t=*** ? curl ***"},
		{"/k/live%20key-17/x", "b", "c", "/*** ? b ? c"},
		{"/", "live key-17", "live key-17", "/ ? " + hashed("live key-17") + " ? " + hashed("live key-17")},
		{"/live key-17live key-17", "", "alice's", "/****** ?  ? ***'s"},
		{"/a", "b", "curl live%20key%2D17", "/a ? b ? ***"},
		{"/a", "b", "curl l%69ve+key-17", "/a ? b ? ***"},
		{"/a", "b", "curl live%2520key-17", "/a ? b ? ***"},
		{"/a", "b", "curl live+key-17", "/a ? b ? ***"},
		{"/a", "b", "100% curl%2", "/a ? b ? 100% curl%2"},
	} {
		r.Path, r.Query, r.Agent = test.path, test.query, test.agent
		m := judge.Masked(r)
		if got := m.Path + " ? " + m.Query + " ? " + m.Agent; got != test.shown {
			t.Errorf("%s, want %s", got, test.shown)
		}
	}
	if n := testing.AllocsPerRun(200, func() { judge.Masked(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if plain := mustParse(t, oneRule).NewJudge(); plain.Masked(r) != r {
		t.Error("a request was copied although no rule is secret")
	}
}

// A secret that is a part of another one does not keep that one from being hidden.
func TestSecretsWithinSecretsAreHidden(t *testing.T) {
	judge := mustParse(t, "secret_file: testdata/hash.key\nrules: [{name: a, key: http_x_api_key, limits: [1/min], secret: true}, {name: b, key: [query, cookie_session], limits: [1/min], secret: true}]").NewJudge()
	r := withSecret()
	r.Fields = append(r.Fields, request.Field{Name: "cookie_session", Value: "my live key-17 and more"})
	r.Path, r.Query, r.Agent = "/a", "live key-17&my-other-secret", "curl my live key-17 and more"
	if m := judge.Masked(r); m.Query != hashed("live key-17&my-other-secret") || m.Agent != "curl ***" {
		t.Errorf("%s ? %s", m.Query, m.Agent)
	}
	if n := testing.AllocsPerRun(200, func() { judge.Masked(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Records of attempts have hashes instead of values, and hashes are not hashed again. In a log they are values.
func TestHashesInAttemptsStay(t *testing.T) {
	judge := mustParse(t, "secret_file: testdata/hash.key\nrules: [{name: refused, match: verdict == \"refused\", key: user, limits: [1/min], secret: true}, {name: log, key: user, limits: [1/min], secret: true}]").NewJudge()
	r := &request.Request{User: hashed("alice"), Take: &request.Take{Rule: "x", Verdict: "refused"}}
	if hits := judge.Hits(r); len(hits) != 1 || string(hits[0].Key) != hashed("alice") {
		t.Errorf("%v", hits)
	}
	r.Take = nil
	if hits := judge.Hits(r); len(hits) != 1 || string(hits[0].Key) != hashed(hashed("alice")) {
		t.Errorf("%v", hits)
	}
}

// Refusals of an inline rule count under its hashed keys.
func TestRefusalsUnderHashes(t *testing.T) {
	judge := mustParse(t, secretRules).NewJudge()
	r := &request.Request{Take: &request.Take{Rule: "users", Key: hashed("alice"), Verdict: "refused"}}
	if hits := judge.Refusals(r); len(hits) != 1 || string(hits[0].Key) != hashed("alice") {
		t.Errorf("%v", hits)
	}
	r.Take.Key = "alice"
	if hits := judge.Refusals(r); len(hits) != 0 {
		t.Errorf("a key in clear counted: %v", hits)
	}
}

// With and without secret, two requests have one key or two, the same.
func TestSecretsSeparateTheSameRequests(t *testing.T) {
	const rules = "rules: [{name: a, key: [ip/24, user, x], limits: [1/s]SECRET}, {name: b, key: user, limits: [1/s]SECRET}]\nsecret_file: testdata/hash.key\n"
	plain := mustParse(t, strings.ReplaceAll(rules, "SECRET", "")).NewJudge()
	secret := mustParse(t, strings.ReplaceAll(rules, "SECRET", ", secret: true")).NewJudge()
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "a", "a b", `a\x20b`, "ä\x00", "#0123456789abcdef0123", strings.Repeat("long", 50), "…#"}
	of, back := map[string]string{}, map[string]string{}
	for range 5000 {
		r := &request.Request{IP: netip.AddrFrom4([4]byte{203, 0, byte(random.IntN(3)), byte(random.IntN(2))}), User: texts[random.IntN(len(texts))],
			Fields: []request.Field{{Name: "x", Value: texts[random.IntN(len(texts))]}}}
		clear, hidden := plain.Hits(r), secret.Hits(r)
		if len(clear) != len(hidden) {
			t.Fatalf("%d and %d hits", len(clear), len(hidden))
		}
		for i := range clear {
			a, b := fmt.Sprintf("%d %s", clear[i].Rule, clear[i].Key), fmt.Sprintf("%d %s", hidden[i].Rule, hidden[i].Key)
			if was, ok := of[a]; ok && was != b {
				t.Fatalf("%s is %s and %s", a, was, b)
			}
			if was, ok := back[b]; ok && was != a {
				t.Fatalf("%s stands for %s and %s", b, was, a)
			}
			of[a], back[b] = b, a
		}
	}
	if len(of) < 100 {
		t.Errorf("only %d keys", len(of))
	}
}

func TestFingerprintHasTheSecretsKey(t *testing.T) {
	load := func(key, rules string) string {
		set, _, err := rule.Load(filepath.Join(folder(t, map[string]string{"rules.yaml": rules, "key": key}), "rules.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if names := strings.Join(set.Files(), " "); !strings.Contains(names, "key") {
			t.Errorf("the key's file is not watched: %s", names)
		}
		return set.Fingerprint()
	}
	const rules = "secret_file: key\nrules: [{name: a, key: user, limits: [1/s], secret: true}]"
	first := load(hashKey, rules)
	if load(hashKey+"\n", rules) != first {
		t.Error("a line's end changes the key")
	}
	if load(hashKey+"0", rules) == first {
		t.Error("another key has the same fingerprint")
	}
}

func TestKeysOfSecretsThatCannotBe(t *testing.T) {
	dir := folder(t, map[string]string{"short": "abc\n", "binary": strings.Repeat("\x00", 32), "long": strings.Repeat("x", 5000), "good": hashKey})
	parse := func(text string) error {
		_, _, err := rule.Parse(filepath.Join(dir, "rules.yaml"), []byte(text))
		return err
	}
	const rules = "\nrules: [{name: a, key: user, limits: [1/s], secret: true}]"
	for file, want := range map[string]string{"short": "has 3 bytes", "binary": "not printable", "long": "has 5000 bytes", "none": "cannot be read"} {
		if err := parse("secret_file: " + file + rules); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ":1:14") {
			t.Errorf("%s: %v", file, err)
		} else if strings.Contains(err.Error(), "abc") {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	for name, text := range map[string]string{"1.yaml": "secret_file: good" + rules, "2.yaml": "secret_file: other\nrules: []"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := rule.Load(filepath.Join(dir, "*.yaml")); err == nil || !strings.Contains(err.Error(), "secret_file differs from the one at") {
		t.Error(err)
	}
}

// A tool that may not read the key makes no keys, in clear or otherwise.
func TestWithoutTheKeyNothingIsMade(t *testing.T) {
	var source rule.Source
	source.Patterns = []string{"rules.yaml"}
	dir := folder(t, map[string]string{"rules.yaml": "secret_file: none\nrules: [{name: a, key: user, limits: [1/s], secret: true}]"})
	if _, _, err := source.Load(dir); err == nil {
		t.Error("a part starts without the key")
	}
	set, _, err := source.LoadToAsk(dir)
	if err != nil {
		t.Fatal(err)
	}
	if hits := set.NewJudge().Hits(sample()); len(hits) != 0 || set.Fingerprint() != "" {
		t.Errorf("%v %s", hits, set.Fingerprint())
	}
	if key, err := set.Rules[0].Key.Canonical("alice"); key != "alice" || err != nil {
		t.Error(key, err)
	}
	if keys := set.HiddenKeys("user:alice"); len(keys) != 0 {
		t.Error(keys)
	}
}

// A ConfigMap is checked where the Secret with the key is not mounted.
func TestAConfigMapMayLackTheKey(t *testing.T) {
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rules}\ndata:\n  rules.yaml: |\n    secret_file: /none/hash.key\n" +
		"    rules: [{name: a, key: [ip, user], limits: [1/s], secret: true}]\n"
	set, warnings, found, err := rule.ParseConfigMap("manifest", []byte(manifest))
	if err != nil || !found || set.Fingerprint() != "" || !strings.Contains(fmt.Sprint(warnings), "manifest:6:18: the file /none/hash.key cannot be read") {
		t.Errorf("%v %v", warnings, err)
	}
}

// For any value of a secret field and any texts: keys and what is shown have the value nowhere, and no text of a request
// without it changes.
func FuzzMasked(f *testing.F) {
	f.Add("live key-17", "/k/live%20key-17", "t=live key-17", "curl", "alice")
	f.Add("zzz", "zzzz", "zzzzzz", "zz", "zzz")
	f.Add("\xff\x00…#", "/\xff\x00…#", "", "\xff", "")
	set := mustParse(f, secretRules)
	f.Fuzz(func(t *testing.T, value, path, query, agent, user string) {
		judge := set.NewJudge()
		r := &request.Request{IP: netip.MustParseAddr("203.0.113.7"), User: user, Path: path, Query: query, Agent: agent, Fields: []request.Field{{Name: "http_x_api_key", Value: value}}}
		if key := string(judge.Hits(r)[0].Key); value != "" && key != hashed(value) {
			t.Fatalf("%s is not the hash of %q", key, value)
		}
		shown := judge.Masked(r)
		if user != "" && shown.User != hashed(user) || r.User != user || r.Path != path || r.Query != query || r.Agent != agent {
			t.Fatalf("%+v of %+v", shown, r)
		}
		// A value of these characters may be a part of what stands for it.
		if len(value) < 3 || strings.Trim(value, "#*/0123456789abcdef") == "" || strings.Contains(value, "*") || len(user) > 2 {
			return
		}
		for _, text := range []string{shown.Path, shown.Query, shown.Agent} {
			if strings.Contains(text, value) {
				t.Fatalf("%q has %q", text, value)
			}
		}
		if !strings.Contains(query, value) && shown.Query != query && query != user {
			t.Fatalf("%q became %q", query, shown.Query)
		}
	})
}

func TestFieldsThatLookLikeSecrets(t *testing.T) {
	for key, want := range map[string]string{"http_authorization": "looks like a secret", "Session_ID": "looks like a secret", "tenant": "", "user": "is secret in another rule"} {
		text := "secret_file: testdata/hash.key\nrules: [{name: a, key: [ip, " + key + "], limits: [1/s]}, {name: per-ip, key: ip, limits: [1/s]}, {name: b, key: [ip, user], limits: [1/s], secret: true}]"
		_, warnings, err := rule.Parse("rules.yaml", []byte("users: checked\n"+text))
		said := fmt.Sprint(warnings)
		if err != nil || want == "" && regexp.MustCompile("secret").MatchString(said) || !strings.Contains(said, want) {
			t.Errorf("%s: %s %v", key, said, err)
		}
	}
}

func BenchmarkSecretKey(b *testing.B) {
	for name, secret := range map[string]string{"clear": "", "secret": ", secret: true"} {
		b.Run(name, func(b *testing.B) {
			judge := mustParse(b, "secret_file: testdata/hash.key\nrules: [{name: a, key: http_x_api_key, limits: [1/s]"+secret+"}]").NewJudge()
			requests := make([]*request.Request, 64)
			for i := range requests {
				requests[i] = sample()
				requests[i].Fields = []request.Field{{Name: "http_x_api_key", Value: fmt.Sprintf("live-%032d", i)}}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				judge.Hits(requests[i%len(requests)])
			}
		})
	}
}
