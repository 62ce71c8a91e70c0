package collector

import (
	"os"
	"path/filepath"
	"testing"

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
	if got := kept.find("0123456789abcdef"); got != nil {
		t.Error("rules were found that were never kept")
	}
}
