package edges

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/edges.md links every file of deployments/edge, and the lines that it shows before the chapter on users are lines
// of these files.
func TestDocumentedLinesAreTheFiles(t *testing.T) {
	text, err := os.ReadFile("../../docs/edges.md")
	if err != nil {
		t.Fatal(err)
	}
	page, _, found := strings.Cut(string(text), "\n## Users\n")
	files, err := os.ReadDir(snippets)
	if err != nil || !found || len(files) < 10 {
		t.Fatalf("%d files, %v, users: %v", len(files), err, found)
	}

	var content []string
	for _, file := range files {
		content = append(content, snippet(t, file.Name()))
		if name := file.Name(); !strings.Contains(page, "[deployments/edge/"+name+"](../deployments/edge/"+name+")") {
			t.Errorf("docs/edges.md has no link to %s", name)
		}
	}

	shown := 0
	for _, block := range regexp.MustCompile("(?s)\n```[a-z]*\n(.*?\n)```\n").FindAllStringSubmatch(page, -1) {
		if strings.HasPrefix(block[1], "client:\n") || strings.HasPrefix(block[1], "enforcer:\n") { // of weir.yaml
			continue
		}
		shown++
		if !isIn(block[1], content) {
			t.Errorf("no file of deployments/edge has the lines\n%s", block[1])
		}
	}
	if shown < 10 {
		t.Errorf("docs/edges.md shows lines of the files in %d blocks", shown)
	}
}

// isIn reports whether one of the files has the lines of a block, in their order. A line of dots stands for any lines.
func isIn(block string, files []string) bool {
	parts := regexp.MustCompile(`(?m)^\s*…\n`).Split(block, -1)
next:
	for _, rest := range files {
		for _, part := range parts {
			at := strings.Index("\n"+rest, "\n"+part)
			if at < 0 {
				continue next
			}
			rest = rest[at+len(part):]
		}
		return true
	}
	return false
}
