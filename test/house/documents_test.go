package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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

// The page of dependencies names the modules that go.mod asks for by itself, and no others.
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
	for _, path := range regexp.MustCompile(`(?m)(github\.com|golang\.org|go\.\w+\.\w+|go\.uber\.org)/[\w./-]+\w`).FindAllString(page, -1) {
		if !direct[path] {
			t.Errorf("docs/dependencies.md names %s, which go.mod does not ask for", path)
		}
	}
}

// Every link of a page to a file leads to one.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "ARCHITECTURE.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// The rooms that ARCHITECTURE.md names exist, and the rooms that exist are named.
func TestRoomsAreDescribed(t *testing.T) {
	page := read(t, "ARCHITECTURE.md")
	for _, m := range regexp.MustCompile("(?m)^\\|[ 1-9]*\\| `([a-z/]+)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("ARCHITECTURE.md describes a room that is not there: %v", err)
		}
	}
	for _, p := range packages(t) {
		if floor, room := floorOf(p.ImportPath); floor >= 0 && !strings.Contains(page, "`"+room+"`") {
			t.Errorf("ARCHITECTURE.md does not describe %s", room)
		}
	}
}

// The README's backtest prints what the README says it does.
func TestReadmeShowsWhatItsCommandPrints(t *testing.T) {
	readme := read(t, "README.md")
	command := regexp.MustCompile(`(?m)^    go run (.* backtest .*)$`).FindStringSubmatch(readme)
	if command == nil {
		t.Fatal("the README has no command")
	}
	run := exec.Command("go", append([]string{"run"}, strings.Fields(command[1])...)...)
	run.Dir = root
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if line != "" && !strings.Contains(readme, "    "+line+"\n") {
			t.Errorf("the README does not show %q", line)
		}
	}
}

// The shippers that the README says have their files here have them.
func TestShippersOfTheReadmeHaveFiles(t *testing.T) {
	readme := read(t, "README.md")
	_, named, _ := strings.Cut(readme, "**I ship logs to Kafka.**")
	named, _, ok := strings.Cut(named, "deployments/shippers")
	if !ok {
		t.Fatal("the README does not say where shippers' files are")
	}
	for shipper, file := range map[string]string{"Vector": "vector", "Fluent Bit": "fluent-bit", "Filebeat": "filebeat", "Logstash": "logstash", "OpenTelemetry": "otel*"} {
		files, err := filepath.Glob(filepath.Join(root, "deployments/shippers", file+".*"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(named, shipper) && len(files) == 0 {
			t.Errorf("the README names the file of %s, which is not in deployments/shippers", shipper)
		}
	}
}
