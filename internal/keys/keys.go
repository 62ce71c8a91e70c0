// Package keys says who may do what over HTTP, by a file of API keys.
//
// The file holds no key, only each one's SHA-256, its name and its role:
//
//	keys:
//	  - {name: edge-1, role: send, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
//
// The hash has no salt: keys are long and random, not passwords that people choose.
//
// A File is read strictly, all its faults are told at once. Reread takes a changed one; a faulty one is refused and
// the last good one goes on; of one that is gone no key is known any more. Looking for a key takes as long whichever key it is, and whether there is one. A File may
// be used by several goroutines at once; it starts none. Add and Remove change the file on the disk, safely beside others
// who do, and leave the people's comments where they are.
package keys

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"weir/internal/yamlfile"
)

// A Role is what the holder of a key may do.
type Role string

// The roles: Read sees the list, Write gives orders too, Send may send requests and nothing else, Admin may do everything.
const (
	Read  Role = "read"
	Write Role = "write"
	Send  Role = "send"
	Admin Role = "admin"
)

// May says whether the role is enough for what wants another.
func (r Role) May(want Role) bool {
	return r == Admin || r == want || r == Write && want == Read
}

// A Key is one key of a file.
type Key struct {
	Name string
	Role Role
	hash [sha256.Size]byte
}

// A File is a file of keys, as it was last read without a fault.
type File struct {
	path string
	keys atomic.Pointer[[]Key]

	mu   sync.Mutex // of Reread
	data []byte     // what keys was read from
}

// Open reads a file.
func Open(path string) (*File, error) {
	f := &File{path: path}
	if _, err := f.Reread(); err != nil {
		return nil, err
	}
	return f, nil
}

// Reread reads the file again and says whether it holds something new. With an error the keys are what they were, but
// of a file that is gone none is known any more: who deletes it wants nobody to come in.
func (f *File) Reread() (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) && f.keys.Load() != nil {
		changed = len(f.All()) > 0
		f.keys.Store(&[]Key{})
		f.data = nil
		return changed, fmt.Errorf("%s is gone, and no API key is known any more: write it again (weir keys add)", f.path)
	}

	if err != nil {
		return false, fmt.Errorf("reading the API keys: %w", err)
	}
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

// Find is the key whose secret is given.
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

// Parse reads what a file holds.
func Parse(name string, data []byte) ([]Key, error) {
	var file struct {
		Keys entries `yaml:"keys"`
	}
	if faults := yamlfile.Decode(name, data, &file); len(faults) > 0 {
		return nil, faults
	}
	return file.Keys, nil
}

// All are the keys, in the file's order.
func (f *File) All() []Key { return *f.keys.Load() }
