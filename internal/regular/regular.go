// Package regular reads regular files of a bounded size, and refuses the others: reading a pipe or a device may never
// end.
package regular

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxBytes is more than any file of rules, settings, keys or certificates has.
const maxBytes = 64 << 20

var errNotRegular = errors.New("it is no regular file; write the path of one")

// ReadFile reads a regular file of at most 64 MiB. Of a named pipe or a device it returns an error, because reading one may never end: the
// process would not read its other files again either. The pipes of a shell (/dev/fd/63) and /dev/stdin are read.
func ReadFile(path string) ([]byte, error) { return ReadUpTo(path, maxBytes) }

// ReadUpTo is ReadFile with another bound in bytes, of entire MiB.
func ReadUpTo(path string, most int64) ([]byte, error) {
	errLarge := fmt.Errorf("it has more than %d MiB; write the path of a smaller file", most>>20)
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

	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info.Size() > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errLarge}
	}

	data, err := io.ReadAll(io.LimitReader(file, most+1)) // a file may grow, and a pipe has no size
	if err == nil && int64(len(data)) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: errLarge}
	}
	return data, err
}

// ReadKeyPair reads a certificate and its key, as tls.LoadX509KeyPair does.
func ReadKeyPair(cert, key string) (tls.Certificate, error) {
	certPEM, err := ReadFile(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := ReadFile(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}
