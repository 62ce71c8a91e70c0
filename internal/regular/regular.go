// Package regular reads regular files, and refuses the others: reading a pipe or a device may never end.
package regular

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

var errNotRegular = errors.New("it is no regular file; write the path of one")

// ReadFile reads a regular file. Of a named pipe or a device it returns an error, because reading one may never end: the
// process would not read its other files again either. The pipes of a shell (/dev/fd/63) and /dev/stdin are read.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: failed.Err} // as for any file that is read
	}
	if err != nil {
		return nil, err
	}
	special := info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice|fs.ModeSocket|fs.ModeIrregular) != 0
	if special && path != "/dev/stdin" && !strings.HasPrefix(path, "/dev/fd/") && !strings.HasPrefix(path, "/proc/self/fd/") {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}

	return os.ReadFile(path)
}
