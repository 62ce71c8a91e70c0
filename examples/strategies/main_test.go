package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// weir compare shows the same answers to the traffic as the callers got, and the pages have all curves.
func TestStrategies(t *testing.T) {
	folder := t.TempDir()
	var out strings.Builder
	if err := run(t.Context(), &out, "", folder, 4*time.Second); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(out.String(), ",", "")
	for _, name := range []string{"bursts", "crowd"} {
		_, section, _ := strings.Cut(text, name+" decided while the callers waited:")
		live := regexp.MustCompile(`sliding +(\d+) admitted +(\d+) refused`).FindStringSubmatch(section)
		given := regexp.MustCompile(`given were (\d+) admitted (\d+) refused`).FindStringSubmatch(section)
		judged := regexp.MustCompile(`sliding\* +(\d+) +(\d+)`).FindStringSubmatch(section)
		if live == nil || given == nil || judged == nil || live[1] == "0" || live[2] == "0" || strings.Join(live[1:], " ") != strings.Join(given[1:], " ") || strings.Join(given[1:], " ") != strings.Join(judged[1:], " ") {
			t.Errorf("%s: answered %q, given %q, judged %q", name, live, given, judged)
		}
		page, err := os.ReadFile(filepath.Join(folder, name+".html"))
		if curves := strings.Count(string(page), `class="edge"`); err != nil || curves != len(algorithms) {
			t.Errorf("%s: %d curves, %v", name, curves, err)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
