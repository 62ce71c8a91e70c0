package rule_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/yamlfile"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// folder is a new folder with these files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	path := t.TempDir()
	for name, content := range files {
		full := filepath.Join(path, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestExampleIsReadCompletely(t *testing.T) {
	set, warnings, err := rule.Load("testdata/example.yaml")
	if err != nil || warnings != nil {
		t.Fatal(err, warnings)
	}
	user, at := set.Rule("per-user")
	if at != 0 || user.Description == "" || user.Key.String() != "user" || user.Limits[2].Text != "1000/day" || user.Algorithm != window.Sliding ||
		user.Cost != "1" || user.Count != rule.All || user.Mode != rule.Enforce || !strings.HasPrefix(user.Match, "path startsWith") {
		t.Errorf("%+v", user)
	}
	if b := user.Block; b.For != 10*time.Minute || !slices.Equal(b.Then, []time.Duration{time.Hour, 24 * time.Hour}) || b.Forget != 24*time.Hour || b.Extend || b.Covers != rule.CoversAll {
		t.Errorf("%+v", user.Block)
	}
	downloads, _ := set.Rule("downloads")
	if downloads.Algorithm != window.Counter || downloads.Subwindows != 20 || downloads.Count != rule.Served || downloads.Mode != rule.Shadow ||
		downloads.Block.Covers != rule.CoversMatch || downloads.Key.String() != "ip/24+56" || downloads.Cost != "ceil(bytes / 1048576)" {
		t.Errorf("%+v", downloads)
	}
	logins, _ := set.Rule("logins")
	if logins.Algorithm != window.Token || logins.Burst != 10 || logins.Block.For != rule.DefaultFor || logins.Block.Forget != rule.DefaultForget {
		t.Errorf("%+v", logins)
	}
	if none, at := set.Rule("none"); none != nil || at != -1 {
		t.Error("a rule that is not there was found")
	}
	if len(set.Allows) != 4 || len(set.Allows[1].Prefixes) != 3 || set.Allows[2].Until.Year() != 2027 || set.Allows[3].Note != "kubelet" {
		t.Errorf("%+v", set.Allows)
	}
	if !slices.Equal(set.Files(), []string{"testdata/example.yaml", "testdata/monitoring.txt"}) {
		t.Errorf("%v", set.Files())
	}
	for _, r := range set.Rules {
		if _, err := r.Policy(time.Minute, 0); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	set := mustParse(t, "rules: [{name: a, key: ip, limits: [1/s], algorithm: counter}]")
	r := set.Rules[0]
	if r.Subwindows != rule.DefaultSubwindows || r.Block.For != 10*time.Minute || r.Block.Forget != 24*time.Hour || r.Cost != "1" || r.Match != "" || r.Mode != rule.Enforce {
		t.Errorf("%+v", r)
	}
}

func TestLoadReadsPathsAndGlobs(t *testing.T) {
	path := folder(t, map[string]string{
		"base.yaml":        "rules: [{name: base, key: ip, limits: [1/s]}]\n",
		"rules.d/b.yaml":   "rules: [{name: b, key: ip, limits: [1/s]}]\n",
		"rules.d/a.yaml":   "rules: [{name: a, key: ip, limits: [1/s]}]\nallow: [{ip: {file: ../ours.txt}, rules: [base, b]}]\n",
		"rules.d/only.txt": "not this",
		"ours.txt":         "10.0.0.0/8\n",
		"odd[1].yaml":      "rules: [{name: odd, key: ip, limits: [1/s]}]\n",
	})
	set, warnings, err := rule.Load(filepath.Join(path, "base.yaml"), filepath.Join(path, "rules.d/*.yaml"), filepath.Join(path, "rules.d/b.yaml"), filepath.Join(path, "odd[1].yaml"))
	if err != nil || warnings != nil {
		t.Fatal(err, warnings)
	}
	var names []string
	for _, r := range set.Rules {
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"base", "a", "b", "odd"}) {
		t.Errorf("%v", names)
	}
	if len(set.Files()) != 5 || set.Files()[4] != filepath.Join(path, "ours.txt") {
		t.Errorf("%v", set.Files())
	}
}

func TestLoadReportsTheErrorsOfAllFiles(t *testing.T) {
	path := folder(t, map[string]string{
		"a.yaml": "rules: [{name: same, key: ip, limits: [1/s]}]\nallow: [{user: x, rules: [sam]}]\n",
		"b.yaml": "rules:\n  - {name: same, key: ip, limits: [1/s]}\n",
		"c.yaml": "rules: [\n",
		"d":      "",
	})
	_, _, err := rule.Load(filepath.Join(path, "*.yaml"), filepath.Join(path, "none.yaml"), filepath.Join(path, "none*"), path)
	if err == nil {
		t.Fatal("no fault was found")
	}
	want := `PATH: this is a folder; write PATH/*.yaml
PATH/a.yaml:2:27: there is no rule sam; did you mean same?
PATH/b.yaml:2:12: the name same has the rule at PATH/a.yaml:1 already; give each rule a name of its own
PATH/c.yaml:2:1: a value is missing here, or a bracket above is not closed
PATH/none*: no file matches this pattern
PATH/none.yaml: no such file or directory`
	if got := strings.ReplaceAll(err.Error(), path, "PATH"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if _, _, err := rule.Load(); err == nil {
		t.Error("nothing was loaded without a fault")
	}
}

func TestFromLimits(t *testing.T) {
	set, err := rule.FromLimits([]string{"10/min", "100/hour"}, "ip,path")
	if err != nil || set.Rules[0].Name != "per-ip-path" || len(set.Rules[0].Limits) != 2 || set.Rules[0].Block.For != rule.DefaultFor {
		t.Fatalf("%v %+v", err, set)
	}
	if hits := set.NewJudge().Hits(sample()); len(hits) != 1 || string(hits[0].Key) != "203.0.113.7 /api/orders/17" {
		t.Errorf("%v", hits)
	}
	for key, want := range map[string]string{"ip": "per-ip", "ip/32+128": "per-ip-32-128", "ip/24": "per-ip-24-64", "x.y": "per-x.y", "@t": "per-t"} {
		set, err := rule.FromLimits([]string{"10/min"}, key)
		if err != nil || set.Rules[0].Name != want {
			t.Errorf("%s: %v %v", key, set, err)
		}
	}
	for _, bad := range []struct {
		limits []string
		key    string
	}{{nil, "ip"}, {[]string{"10"}, "ip"}, {[]string{"10/min"}, ""}, {[]string{"10/x", "5/y"}, "ip/0"}} {
		if set, err := rule.FromLimits(bad.limits, bad.key); err == nil {
			t.Errorf("%v was read as %v", bad, set)
		}
	}
}

func TestShadowed(t *testing.T) {
	set := mustParse(t, oneRule)
	shadowed := set.Shadowed()
	if shadowed.Rules[0].Mode != rule.Shadow || set.Rules[0].Mode != rule.Enforce || shadowed.Fingerprint() == set.Fingerprint() {
		t.Error("the mode is not changed in the copy alone")
	}
	if hits := shadowed.NewJudge().Hits(sample()); len(hits) != 1 {
		t.Errorf("%v", hits)
	}
}

func TestHoldsRules(t *testing.T) {
	tests := map[string]bool{
		"rules: [{name: a}]": true, "allow: []": true, "rules: [\n": true, "rules: [\nkafka: x": false, "": false, "- a": false, "rules: rules.yaml\ndata: /x\n": false,
		"kind: ConfigMap\n": false, "rules: x\ntests: []\n": false, "rules: []\nextra: 1\n": true,
	}
	for text, want := range tests {
		if got := rule.HoldsRules([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

const configMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: weir-rules}
data:
  weir.yaml: |
    rules: rules.yaml
    data: /var/lib/weir
  rules.yaml: |
    rules:
      - name: per-ip
        key: ip
        limits: [10/min]
        match: 'pth == "/x"'
    allow:
      - ip: {file: ours.txt}
  more.yaml: |
    rules:
      - {name: more, key: user, limits: [10/mn]}
  ours.txt: |
    10.0.0.0/8
    10.0.0.1/8
`

func TestConfigMaps(t *testing.T) {
	_, _, found, err := rule.ParseConfigMap("cm.yaml", []byte(configMap))
	want := `cm.yaml:13:17: pth is not known; did you mean path?
cm.yaml:18:42: "10/mn" is no limit: the time "mn" is not known; did you mean min?
cm.yaml[ours.txt]:2:1: 10.0.0.1/8 has bits set after its first 8; write 10.0.0.0/8 for the network, or 10.0.0.1 for the address`
	if !found || err == nil || err.Error() != want {
		t.Errorf("%v\n%v\nwant\n%s", found, err, want)
	}
	good := strings.NewReplacer("pth", "path", "/mn", "/min", "    10.0.0.1/8\n", "").Replace(configMap)
	set, _, found, err := rule.ParseConfigMap("cm.yaml", []byte(good))
	if !found || err != nil || len(set.Rules) != 2 || len(set.Allows[0].Prefixes) != 1 {
		t.Errorf("%v %v %+v", found, err, set)
	}
	if _, _, found, _ := rule.ParseConfigMap("x", []byte("rules: []")); found {
		t.Error("a rules file was taken for a ConfigMap")
	}
}

func TestSourcesInAConfiguration(t *testing.T) {
	path := folder(t, map[string]string{"r.yaml": "rules: [{name: a, key: ip, limits: [1/s]}]\n", "d/s.yaml": "rules: [{name: b, key: ip, limits: [1/s]}]\n", "ours.txt": "10.0.0.0/8"})
	tests := map[string]int{
		"rules: r.yaml":                              1,
		"rules: [r.yaml, d/*.yaml]":                  2,
		"rules: " + filepath.Join(path, "d/s.yaml"):  1,
		"rules: [{name: c, key: ip, limits: [1/s]}]": 1,
		"rules: {rules: [{name: c, key: ip, limits: [1/s]}], allow: [{ip: {file: ours.txt}}]}": 1,
	}
	for text, want := range tests {
		var configuration struct {
			Rules rule.Source `yaml:"rules"`
		}
		if faults := yamlfile.Decode(filepath.Join(path, "weir.yaml"), []byte(text), &configuration); faults != nil {
			t.Errorf("%s: %v", text, faults)
			continue
		}
		set, _, err := configuration.Rules.Load(path)
		if err != nil || len(set.Rules) != want {
			t.Errorf("%s: %v %v", text, set, err)
		}
	}
	var faulty struct {
		Rules rule.Source `yaml:"rules"`
	}
	faults := yamlfile.Decode("weir.yaml", []byte("rules:\n  - {name: c, key: ip, limits: [1/x]}\n"), &faulty)
	if !strings.HasPrefix(faults.Error(), `weir.yaml:2:33: "1/x" is no limit`) {
		t.Error(faults)
	}
}

func TestExpressionsAreBounded(t *testing.T) {
	long := strings.Repeat("(", 1<<20) + "true" + strings.Repeat(")", 1<<20)
	_, _, err := rule.Parse("f", []byte("rules: [{name: a, key: ip, limits: [1/s], match: '"+long+"'}]"))
	if err == nil || !strings.Contains(err.Error(), "is too long") {
		t.Errorf("%.200v", err)
	}
}
