package rule_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"weir/internal/yamlfile"
	"weir/pkg/rule"
)

var update = flag.Bool("update", false, "write what is found into testdata instead of comparing it")

// testdata/faults.txt contains rules files with mistakes and their messages: "====" and a title, the file, "----", and
// the errors, then the warnings.
func TestFilesWithErrors(t *testing.T) {
	const path = "testdata/faults.txt"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	for _, section := range strings.Split(string(data), "\n==== ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		file, want, _ := strings.Cut(rest+"\n", "----\n")
		got := said(file)
		if strings.TrimRight(want, "\n") != got && !*update {
			t.Errorf("%s:\n%s\nsays\n%s\nwant\n%s", title, file, got, want)
		}
		found.WriteString("\n==== " + title + "\n" + file + "----\n" + got + "\n")
	}
	if *update {
		intro, _, _ := strings.Cut(string(data), "\n==== ")
		if err := os.WriteFile(path, []byte(intro+found.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A file cannot make reading it take long by its mistakes: the conditions of an expression with many are not looked at
// one by one.
func TestManyMistakesInOneExpression(t *testing.T) {
	of := func(n int) string {
		return "rules: [{name: a, key: ip, limits: [1/s], match: '" + strings.Repeat("qqqqq and ", n) + "status == \"1\"'}]"
	}
	if found := said(of(16)); strings.Count(found, "\n") != 16 || !strings.Contains(found, "mismatched types") {
		t.Error(found)
	}
	if found := said(of(17)); strings.Count(found, "\n") != 16 || strings.Contains(found, "mismatched types") {
		t.Error(found)
	}
}

// said is the messages about a file, one a line.
func said(file string) string {
	_, warnings, err := rule.Parse("testdata/f", []byte(file))
	var lines []string
	var faults yamlfile.Faults
	if errors.As(err, &faults) {
		for _, fault := range faults {
			lines = append(lines, strings.TrimPrefix(fault.String(), "testdata/"))
		}
	}
	for _, warning := range warnings {
		lines = append(lines, "warning: "+strings.TrimPrefix(warning.String(), "testdata/"))
	}
	if lines == nil {
		return "fine"
	}
	return strings.Join(lines, "\n")
}
