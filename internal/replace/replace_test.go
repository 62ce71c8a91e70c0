package replace_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/replace"
)

func TestFileIsWrittenCompletelyOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "list")
	write := func(text string, err error) error {
		return replace.File(path, func(file *os.File) error {
			_, failed := file.WriteString(text)
			return errors.Join(failed, err)
		})
	}

	if err := write("first", nil); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	if err := write("half", full); !errors.Is(err, full) {
		t.Errorf("the error of writing became %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "first" {
		t.Errorf("after a failed write the file has %q, %v", text, err)
	}
	if err := write("second", nil); err != nil {
		t.Fatal(err)
	}

	files, err := os.ReadDir(filepath.Dir(path))
	text, failed := os.ReadFile(path)
	if err := errors.Join(err, failed); err != nil || string(text) != "second" || len(files) != 1 {
		t.Errorf("the folder has %v, the file %q, %v", files, text, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %v, %v", info.Mode(), err)
	}
}
