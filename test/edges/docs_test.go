package edges

import (
	"os"
	"strings"
	"testing"
)

// docs/edges.md shows every file of deployments/edge as it is.
func TestDocumentedFilesAreTheFiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/edges.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(snippets)
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if shown := "`deployments/edge/" + file.Name() + "`:\n\n```\n" + snippet(t, file.Name()) + "```\n"; !strings.Contains(string(page), shown) {
			t.Errorf("docs/edges.md does not show %s as it is", file.Name())
		}
	}
	if shown := strings.Count(string(page), "\n`deployments/edge/"); shown != len(files) {
		t.Errorf("docs/edges.md shows %d files, there are %d", shown, len(files))
	}
}
