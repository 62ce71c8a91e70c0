package pipeline

import (
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"weir/internal/yamlfile"
	"weir/pkg/geoip"
	"weir/pkg/geoip/geoiptest"
	"weir/pkg/request"
	"weir/pkg/rule"
)

func TestRulesAreKeptWithTheFilesThatTheyName(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", "rules: [{name: per-ip, key: ip, limits: [10/min]}]\n")
	write("b.yaml", "rules: [{name: per-user, key: user, limits: [5/min]}]\nallow: [{ip: {file: ours.txt}}]\n")
	write("ours.txt", "198.51.100.0/24\n")
	set, _, err := rule.Load(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kept := rulesKept{t.TempDir()}
	for _, set := range []*rule.Set{set, set.Shadowed()} {
		if err := kept.keep(set); err != nil {
			t.Fatal(err)
		}
		if got := kept.find(set.Fingerprint()); got == nil || got.Fingerprint() != set.Fingerprint() {
			t.Errorf("the rules %s are not found again", set.Fingerprint())
		}
	}
	backwards, _, err := rule.Load(filepath.Join(folder, "b.yaml"), filepath.Join(folder, "a.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.keep(backwards); err != nil || backwards.Fingerprint() == set.Fingerprint() || kept.find(backwards.Fingerprint()) == nil {
		t.Errorf("rules in another order are not found again: %v", err)
	}
	if got := kept.find("0123456789abcdef"); got != nil {
		t.Error("rules were found that were never kept")
	}
}

// Files that the rules name are kept too when they are named by their complete paths, and change afterwards.
func TestRulesAreKeptWithFilesOfCompletePaths(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours, key := write("ours.txt", "198.51.100.0/24\n"), write("hash.key", "0123456789abcdef")
	rules := write("a.yaml", "rules: [{name: keys, key: tenant, limits: [10/min], secret: true}]\nallow: [{ip: {file: "+ours+"}}]\nsecret_file: "+key+"\n")
	set, _, err := rule.Load(rules)
	if err != nil {
		t.Fatal(err)
	}
	kept := rulesKept{filepath.Join(t.TempDir(), "rules")}
	if err := kept.keep(set); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(kept.path(set.Fingerprint())); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	write("ours.txt", "192.0.2.0/24\n")
	write("hash.key", "fedcba9876543210")
	if got := kept.find(set.Fingerprint()); got == nil || got.HiddenValue("tenant", "a") != set.HiddenValue("tenant", "a") {
		t.Error("the rules are not found again after the files that they name have changed")
	}
}

// TestRulesOfTheConfigurationAreKept has them stand in weir.yaml, in each form.
func TestRulesOfTheConfigurationAreKept(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "ours.txt"), []byte("198.51.100.0/24\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	kept := rulesKept{t.TempDir()}
	for name, text := range map[string]string{
		"a list": "rules: [{name: per-ip, key: ip, match: 'path == \"${PAGE}\"', limits: [10/min, 100/h], block: {for: 10m, then: [1h]}}]",
		"a map": "rules:\n  rules:\n  - name: per-user\n    key: [user, ip/24+56]\n    limits: [5/min]\n    count: served # those\n" +
			"  allow: [{ip: [192.0.2.1, {file: ours.txt}]}, {user: monitor, rules: [per-user]}]",
	} {
		var config struct {
			Rules rule.Source `yaml:"rules"`
		}
		env := yamlfile.Env(func(string) (string, bool) { return "/login", true })
		if faults := yamlfile.Decode(filepath.Join(folder, "weir.yaml"), []byte(text), &config, env); len(faults) > 0 {
			t.Fatal(name, faults)
		}
		set, _, err := config.Rules.Load(folder)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, set := range []*rule.Set{set, set.Shadowed()} {
			if err := kept.keep(set); err != nil {
				t.Fatal(name, err)
			}
			if got := kept.find(set.Fingerprint()); got == nil || got.Fingerprint() != set.Fingerprint() {
				t.Errorf("%s: the rules are not found again: %s", name, set.Embedded().Text)
			}
		}
	}
}

// Databases are kept with the rules that use them, and found again when the file is another one; the oldest are removed.
func TestDatabasesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte("rules: [{name: a, key: asn, limits: [10/min]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := rulesKept{filepath.Join(t.TempDir(), "rules")}
	ip := netip.MustParseAddr("203.0.113.7")
	var prints []string
	for asn := range uint32(keptPlaces + 2) {
		database, err := geoip.Read("asn.mmdb", geoiptest.Bytes(t, 1, map[string]geoiptest.Entry{"203.0.113.0/24": {ASN: 1 + asn}}))
		if err != nil {
			t.Fatal(err)
		}
		source := rule.Source{Patterns: []string{path}, GeoIP: geoip.Join(database)}
		set, _, err := source.Load("")
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.keep(set.Shadowed()); err != nil {
			t.Fatal(err)
		}
		prints = append(prints, set.Shadowed().Fingerprint())
		at := time.Now().Add(time.Duration(int(asn)-60) * time.Second)
		if err := os.Chtimes(kept.path(prints[asn]), at, at); err != nil {
			t.Fatal(err)
		}
	}

	for i, print := range prints {
		set := kept.find(print)
		if i < 2 {
			if set != nil {
				t.Errorf("the rules of the database %d are found without it", i)
			}
			continue
		}
		if set == nil || set.Fingerprint() != print {
			t.Fatalf("the rules with the database %d are not found again", i)
		}
		if hits := set.NewJudge().Hits(&request.Request{IP: ip}); len(hits) != 1 || string(hits[0].Key) != strconv.Itoa(1+i) {
			t.Errorf("the rules with the database %d count %+v", i, hits)
		}
	}
	if files, _ := filepath.Glob(kept.databasePath("*")); len(files) != keptPlaces {
		t.Errorf("%d databases are kept", len(files))
	}

	if err := os.WriteFile(kept.databasePath(kept.find(prints[5]).GeoIP().All()[0].Sum), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if kept.find(prints[5]) != nil {
		t.Error("rules are found with a damaged database")
	}
}
