// Package keys decides by a file of API keys which HTTP requests are allowed.
//
// The file contains no key, only each one's SHA-256, its name and its role:
//
//	keys:
//	  - {name: edge-1, role: send, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
//
// The hash has no salt: keys are long and random, not passwords that people choose.
//
// A File is read strictly, and all its errors are reported at once. Reread reads a changed file. It refuses an invalid
// one, and the last valid one stays in use; when the file was deleted, no key is valid any more. The time of a lookup
// does not depend on the key, nor on whether it exists. A File may be used by several goroutines at once; it starts
// none. Add and Remove change the file on the disk, safely even when other processes do the same, and keep people's
// comments.
package keys

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"weir/internal/regular"
	"weir/internal/yamlfile"
)

// A Role determines what the holder of a key may do.
type Role string

// The roles: Read sees the list, Write also gives orders, Send may only send requests, Take may only take from inline
// limits and settle that, Admin may do everything.
const (
	Read  Role = "read"
	Write Role = "write"
	Send  Role = "send"
	Take  Role = "take"
	Admin Role = "admin"
)

// May reports whether the role suffices for a request that needs another role.
func (r Role) May(want Role) bool {
	return r == Admin || r == want || r == Write && want == Read
}

// A Key is one key of a file.
type Key struct {
	Name string
	Role Role
	hash [sha256.Size]byte
}

// A File is a file of keys, as it was last read without an error.
type File struct {
	path string
	keys atomic.Pointer[[]Key]

	mu   sync.Mutex // held during Reread
	data []byte     // the bytes that keys was read from
}

// Open reads a file.
func Open(path string) (*File, error) {
	f := &File{path: path}
	if _, err := f.Reread(); err != nil {
		return nil, err
	}
	return f, nil
}

// Reread reads the file again and reports whether it has new contents. On an error the keys stay as they were. When the
// file is gone, all keys become invalid: deleting it is a way to lock every client out.
func (f *File) Reread() (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := regular.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) && f.keys.Load() != nil {
		changed = len(f.All()) > 0
		f.keys.Store(&[]Key{})
		f.data = nil
		return changed, fmt.Errorf("%s is gone, and no API key is valid any more: write it again (weir keys add)", f.path)
	}

	if err != nil {
		return false, fmt.Errorf("reading the API keys: %w", err)
	}

	// The contents are compared and not the file's time: it may be replaced within the same second.
	if f.keys.Load() != nil && bytes.Equal(data, f.data) {
		return false, nil
	}

	keys, err := Parse(f.path, data)
	if err != nil {
		return false, fmt.Errorf("reading the API keys: %w", err)
	}

	f.keys.Store(&keys)
	f.data = data
	return true, nil
}

// Find returns the key with the given secret.
func (f *File) Find(secret string) (Key, bool) {
	hash := sha256.Sum256([]byte(secret))
	found, at := 0, 0
	keys := *f.keys.Load()
	for i := range keys {
		same := subtle.ConstantTimeCompare(hash[:], keys[i].hash[:])
		found |= same
		at = subtle.ConstantTimeSelect(same, i, at)
	}
	if found == 0 {
		return Key{}, false
	}
	return keys[at], true
}

// Parse reads the contents of a file.
func Parse(name string, data []byte) ([]Key, error) {
	var file struct {
		Keys entries `yaml:"keys"`
	}
	if faults := yamlfile.Decode(name, data, &file); len(faults) > 0 {
		return nil, faults
	}
	return file.Keys, nil
}

// All returns the keys, in the file's order.
func (f *File) All() []Key { return *f.keys.Load() }
