package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// docs/tool.md has every command. It and the pages that it links to have every flag of the commands that they describe.
// None of them has a flag that does not exist.
func TestToolPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/tool.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	known, flags := map[string]bool{"help": true}, map[string]bool{"json": true, "help": true}
	for _, c := range newRoot(new(bool)).Commands() {
		known[c.Name()] = true
		if !strings.Contains(page, "| `weir "+c.Name()+"` |") {
			t.Errorf("docs/tool.md has no row for weir %s", c.Name())
		}
		_, section, live := strings.Cut(page, "\n## weir "+c.Name())
		section, _, _ = strings.Cut(section, "\n## ")
		if more := regexp.MustCompile("(?m)^\\| `weir " + c.Name() + "` \\|.*\\(\\[more\\]\\((.*)\\)\\)").FindStringSubmatch(page); !live && more != nil {
			elsewhere, err := os.ReadFile("../../docs/" + more[1])
			if err != nil {
				t.Fatal(err)
			}
			section, live = string(elsewhere), true
		}
		for _, at := range append(ownCommands(c), c) {
			at.LocalFlags().VisitAll(func(f *pflag.Flag) {
				flags[f.Name] = true
				everywhere := slices.Contains([]string{"config", "set", "url", "json", "output", "help"}, f.Name) ||
					f.Name == "key-file" && at.Flag("url") != nil // the page describes it once for all commands that ask an enforcer
				if live && !everywhere && !strings.Contains(section, "--"+f.Name) {
					t.Errorf("docs/tool.md does not say what weir %s --%s does", c.Name(), f.Name)
				}
			})
		}
	}
	for _, found := range regexp.MustCompile("(?m)(?:`|^    |&& )weir ([a-z]+)").FindAllStringSubmatch(page, -1) {
		if !known[found[1]] {
			t.Errorf("docs/tool.md has weir %s, which there is not", found[1])
		}
	}
	for _, found := range regexp.MustCompile(`--([a-z][a-z-]*)`).FindAllStringSubmatch(page, -1) {
		if !flags[found[1]] {
			t.Errorf("docs/tool.md has --%s, which there is not", found[1])
		}
	}
}
