package guides

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"weir/test/page"
)

// The program of docs/go.md is built by both ways that the page shows, and so is one that imports all its packages.
func TestOtherProgramsBuildFromAClone(t *testing.T) {
	clone, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(clone, "docs/go.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := "package main\n\nimport (\n"
	for _, row := range regexp.MustCompile("(?m)^\\| `(weir/[a-z/]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		all += "\t_ " + strconv.Quote(row[1]) + "\n"
	}

	program, ways := "", 0
	for _, block := range page.Blocks(string(text)) {
		if block.Language == "go" {
			program = block.Text
			continue
		}
		if block.Language != "sh" {
			continue
		}

		ways++
		folder := t.TempDir()
		for name, text := range map[string]string{"main.go": program, "all.go": all + ")\n"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		sh := exec.Command("sh", "-ec", strings.ReplaceAll(block.Text, "../weir", clone))
		sh.Dir, sh.Env = folder, append(os.Environ(), "GOWORK=", "GOFLAGS=")
		if out, err := sh.CombinedOutput(); err != nil {
			t.Errorf("docs/go.md:%d: %v\n%s", block.Line, err, out)
		}
	}
	if ways != 2 {
		t.Errorf("docs/go.md shows %d ways to build from a clone", ways)
	}
}
