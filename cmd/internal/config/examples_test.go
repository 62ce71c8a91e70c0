package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/internal/yamlfile"
	"weir/pkg/request"
)

// Every weir.yaml that a page shows is read without a fault or a warning.
func TestDocumentedConfigurations(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(block[1], "collector:\n") && !strings.Contains(block[1], "notify:\n") {
				continue // rules
			}
			read++
			o := config.Options{File: "weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"},
				Siblings: []yamlfile.Inner{{Name: "rules.yaml", Data: []byte("rules: [{name: per-ip, key: ip, limits: [10/min]}]\n")}}}
			if _, warnings, err := config.Read([]byte(block[1]), o); err != nil || warnings != nil {
				t.Errorf("%s: %v %v in\n%s", filepath.Base(page), err, warnings, block[1])
			}
		}
	}
	if read < 4 {
		t.Errorf("only %d examples were found", read)
	}
}

// docs/collecting.md has every preset, in the order in which auto prefers them, and every envelope, and no others.
func TestDocumentedFormats(t *testing.T) {
	page, err := os.ReadFile("../../../docs/collecting.md")
	if err != nil {
		t.Fatal(err)
	}
	if got := firstWords(string(page), "Formats"); !slices.Equal(got, request.Presets()) {
		t.Errorf("documented presets %q, there are %q", got, request.Presets())
	}
	got, want := firstWords(string(page), "Envelopes"), request.Envelopes()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("documented envelopes %q, there are %q", got, want)
	}
}

// firstWords returns the first word of each row of a section's first table.
func firstWords(page, section string) (words []string) {
	_, text, _ := strings.Cut(page, "\n## "+section+"\n")
	_, text, _ = strings.Cut(text, "\n| --- |")
	text, _, _ = strings.Cut(text, "\n\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_-]+)` \\|").FindAllStringSubmatch(text, -1) {
		words = append(words, row[1])
	}
	return words
}
