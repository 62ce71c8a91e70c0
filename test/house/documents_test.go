package house

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/test/page"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The page of dependencies names the modules that go.mod requires directly, and no others.
func TestDependenciesAreExplained(t *testing.T) {
	page, module := read(t, "docs/dependencies.md"), read(t, "go.mod")
	direct := map[string]bool{}
	for _, line := range strings.Split(module, "\n") {
		if path, _, ok := strings.Cut(strings.TrimSpace(line), " v"); ok && !strings.Contains(line, "// indirect") {
			direct[path] = true
			if !strings.Contains(page, path) {
				t.Errorf("%s is not in docs/dependencies.md", path)
			}
		}
	}
	for _, path := range regexp.MustCompile(`(?m)(github\.com|(?:google\.)?golang\.org|go\.\w+\.\w+|go\.uber\.org)/[\w./-]+\w`).FindAllString(page, -1) {
		if !direct[path] {
			t.Errorf("docs/dependencies.md names %s, which go.mod does not ask for", path)
		}
	}
}

// Lines of pages have at most 120 columns: not those of tables, of code, and with links, which cannot be broken.
func TestPagesWrap(t *testing.T) {
	const most = 120
	for _, page := range pagesWithLinks(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for n, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if code || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "|") || strings.Contains(line, "](") {
				continue
			}
			if columns := utf8.RuneCountInString(line); columns > most {
				t.Errorf("%s:%d: %d columns, at most %d", page, n+1, columns, most)
			}
		}
	}
}

// Every link of a page leads to a file and, after #, to a heading of a page.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	checked := 0
	for _, page := range pagesWithLinks(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}

		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if m[2] == "" || !strings.HasSuffix(target, ".md") {
				continue
			}
			if checked++; !slices.Contains(anchors(t, target), m[2]) {
				t.Errorf("%s: %s has no heading #%s", page, target, m[2])
			}
		}
	}
	if checked == 0 {
		t.Error("no link leads to a heading")
	}
}

// pagesWithLinks are the paths of all pages: the ones of docs, the ones at the root and in deployments.
func pagesWithLinks(t *testing.T) []string {
	t.Helper()
	pages := pagesOfDocs(t)
	for _, pattern := range []string{"*.md", "deployments/*.md", "deployments/*/*.md", "examples/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// anchors are the names by which links reach the headings of a page: lower case, without punctuation, with a hyphen
// for each space, and numbered from the second of a name.
func anchors(t *testing.T, path string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	linked := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped := regexp.MustCompile(`[^\pL\pN_ -]`)
	seen := map[string]int{}
	code := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		marks, heading, ok := strings.Cut(line, " ")
		if code || !ok || marks == "" || strings.Trim(marks, "#") != "" {
			continue
		}

		heading = linked.ReplaceAllString(strings.TrimSpace(heading), "$1")
		name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
		if n := seen[name]; n > 0 {
			names = append(names, fmt.Sprintf("%s-%d", name, n))
		} else {
			names = append(names, name)
		}
		seen[name]++
	}
	return names
}

// pagesOfDocs are the paths of docs' pages.
func pagesOfDocs(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no pages: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// docs/README.md has one line for each page of docs.
func TestIndexHasEveryPage(t *testing.T) {
	index := read(t, "docs/README.md")
	for _, page := range pagesOfDocs(t) {
		name, err := filepath.Rel(filepath.Join(root, "docs"), page)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(regexp.MustCompile(`(?m)^- \[[^]]+\]\(`+regexp.QuoteMeta(name)+`\): .`).FindAllString(index, -1)); n != 1 && name != "README.md" {
			t.Errorf("docs/README.md has %d lines for %s", n, name)
		}
	}
}

// The README shows the output of its backtest.
func TestReadmeShowsItsCommandsOutput(t *testing.T) {
	blocks := page.Read(t, filepath.Join(root, "README.md"))
	at := slices.IndexFunc(blocks, func(b page.Block) bool {
		return strings.HasPrefix(b.Text, "go run ") && strings.Contains(b.Text, " backtest ")
	})
	if at < 0 || at+1 == len(blocks) {
		t.Fatal("the README has no command, or does not show what it prints")
	}
	command := strings.Fields(blocks[at].Text)
	run := exec.Command(command[0], command[1:]...)
	run.Dir = root
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := page.Compare(blocks[at+1].Text, string(out)); err != nil {
		t.Errorf("README.md:%d: %v", blocks[at+1].Line, err)
	}
}

// The shippers that the README lists have their files.
func TestShippersOfTheReadmeHaveFiles(t *testing.T) {
	readme := read(t, "README.md")
	_, named, _ := strings.Cut(readme, "**I ship logs to Kafka.**")
	named, _, ok := strings.Cut(named, "deployments/shippers")
	if !ok {
		t.Fatal("the README does not say where shippers' files are")
	}
	for shipper, file := range map[string]string{"Vector": "vector", "Fluent Bit": "fluent-bit", "Filebeat": "filebeat", "Logstash": "logstash", "OpenTelemetry": "otelcol*", "rsyslog": "rsyslog", "syslog-ng": "syslog-ng"} {
		files, err := filepath.Glob(filepath.Join(root, "deployments/shippers", file+".*"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(named, shipper) && len(files) == 0 {
			t.Errorf("the README names the file of %s, which is not in deployments/shippers", shipper)
		}
	}
}
