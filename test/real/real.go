// Package real finds, for tests, what this machine may lack: programs, and a disk that is full.
//
// Where something is missing the test is skipped with one line that says what to install; with WEIR_REQUIRE_REAL in
// the environment it fails.
package real

import (
	"os"
	"os/exec"
	"testing"
)

// Program gives the path of a program, which a Debian package of that name has.
func Program(t testing.TB, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name+" is missing: apt-get install "+debian)
	}
	return path
}

// Missing ends a test for which something is missing.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("WEIR_REQUIRE_REAL") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}
