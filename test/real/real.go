// Package real finds things for tests that this machine may lack: programs, and a full disk.
//
// If something is missing the test is skipped with one line that names the package to install; with WEIR_REQUIRE_REAL
// in the environment it fails.
package real

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program returns the path of a program from the Debian package of that name.
func Program(t testing.TB, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name+" is missing: apt-get install "+debian)
	}
	return path
}

// Missing ends a test because something is missing.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("WEIR_REQUIRE_REAL") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Long skips a test that takes long, unless WEIR_LONG is in the environment: `make long` and .ci/run run such tests.
// It is called in the test's own body, where `make long` finds it.
func Long(t testing.TB) {
	t.Helper()
	if long == "" {
		t.Skip("it takes long: make long runs it")
	}
}

var long = os.Getenv("WEIR_LONG")

// The programs that tests start do not get it: weir warns of names like those of its settings.
func init() { _ = os.Unsetenv("WEIR_LONG") }

// Edge returns the path of a program that .ci/run puts into one of the folders of WEIR_EDGES, because no package installs
// it next to the others.
func Edge(t testing.TB, name string) string {
	t.Helper()
	for _, folder := range filepath.SplitList(os.Getenv("WEIR_EDGES")) {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path
		}
	}
	Missing(t, name+" is missing in the folders of WEIR_EDGES: .ci/run has the command that installs it")
	return ""
}
