package haproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"weir/internal/replace"
	"weir/pkg/enforcer/cidr"
)

// file is the map's file.
type file struct {
	path    string
	has     []cidr.Block
	written time.Time // or tried
}

// writeEvery is how often it is written at most.
const writeEvery = time.Second

// exists makes an empty file where there is none.
func (f *file) exists() error {
	created, err := os.OpenFile(f.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("making HAProxy's map: %w", err)
	}
	return created.Close()
}

// write writes what is wanted, where the file has something else and it is time.
func (f *file) write(want []cidr.Block, value Value) error {
	if !f.written.IsZero() && (time.Since(f.written) < writeEvery || slices.Equal(want, f.has)) {
		return nil
	}
	f.written = time.Now()
	if err := f.replace(want, value); err != nil {
		return fmt.Errorf("writing HAProxy's map: %w", err)
	}
	f.has = want
	return nil
}

// replace writes a file next to it and renames that.
func (f *file) replace(want []cidr.Block, value Value) error {
	beside, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+"-*")
	if err != nil {
		return err
	}

	out := bufio.NewWriterSize(beside, 64<<10)
	for _, b := range want {
		_, _ = out.WriteString(value.entry(b) + "\n") // Flush has the error
	}

	// Readable by everyone, because HAProxy may run as another user.
	return replace.With(beside, f.path, errors.Join(out.Flush(), beside.Chmod(0o644)))
}
