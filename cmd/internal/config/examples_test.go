package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/internal/yamlfile"
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
			if !strings.Contains(block[1], "collector:\n") {
				continue // rules
			}
			read++
			o := config.Options{File: "weir.yaml", Environ: []string{"STATE_DIRECTORY=/state"},
				Beside: []yamlfile.Inner{{Name: "rules.yaml", Data: []byte("rules: [{name: per-ip, key: ip, limits: [10/min]}]\n")}}}
			if _, warnings, err := config.Read([]byte(block[1]), o); err != nil || warnings != nil {
				t.Errorf("%s: %v %v in\n%s", filepath.Base(page), err, warnings, block[1])
			}
		}
	}
	if read < 4 {
		t.Errorf("only %d examples were found", read)
	}
}
