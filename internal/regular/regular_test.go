package regular_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/regular"
)

func TestReadFileReadsNoPipesAndDevices(t *testing.T) {
	folder := t.TempDir()
	pipe, zero, file := filepath.Join(folder, "pipe"), filepath.Join(folder, "zero"), filepath.Join(folder, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", zero); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("rules: []"), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{pipe, zero, "/dev/zero"} {
		if _, err := regular.ReadFile(path); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	large, err := os.Create(filepath.Join(folder, "large"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(large.Truncate(64<<20+1), large.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := regular.ReadFile(large.Name()); err == nil || !strings.Contains(err.Error(), "more than 64 MiB") {
		t.Error(err)
	}
	if _, err := regular.ReadKeyPair(file, pipe); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}

	if data, err := regular.ReadFile(file); err != nil || string(data) != "rules: []" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := regular.ReadFile(filepath.Join(folder, "missing")); !os.IsNotExist(err) {
		t.Error(err)
	}
}
