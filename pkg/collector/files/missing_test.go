package files

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weir/pkg/collector/pipeline"
)

func TestFilesThatDoNotExistAreNamed(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	if err := os.WriteFile(in("here.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	here := pipeline.SourceStatus{Logs: []pipeline.LogStatus{{Log: in("here.log")}}}
	rotated := pipeline.SourceStatus{Logs: []pipeline.LogStatus{{Log: in("gone.log.1")}}}
	for name, test := range map[string]struct {
		status   pipeline.SourceStatus
		patterns []string
		want     []string
	}{
		"a path":                          {pipeline.SourceStatus{}, []string{in("gone.log")}, []string{in("gone.log")}},
		"a path of several":               {here, []string{in("here.log"), in("gone.log")}, []string{in("gone.log")}},
		"its rotated file is read":        {rotated, []string{in("gone.log")}, nil},
		"a glob":                          {pipeline.SourceStatus{}, []string{in("*.none")}, []string{in("*.none")}},
		"a glob, and other files":         {here, []string{in("*.log"), in("*.none")}, nil},
		"a glob, and files read before":   {pipeline.SourceStatus{Read: &pipeline.ReadFiles{Files: 1}}, []string{in("*.none")}, nil},
		"a file that has not been opened": {pipeline.SourceStatus{}, []string{in("here.log"), in("*.log")}, nil},
	} {
		m := missingFiles{empty: map[string]bool{in("*.none"): true, in("*.log"): false}}
		if got := m.of(test.patterns, &test.status); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
