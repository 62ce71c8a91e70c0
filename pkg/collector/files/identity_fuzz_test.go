package files

import (
	"bytes"
	"testing"
)

// FuzzIdentity: bytes of any kind are read without a panic, and an identity is read as it was written.
func FuzzIdentity(f *testing.F) {
	i := identity{live: "/var/log/access.log", id: inode{1, 2}, line: 3, head: 4, size: 5, tail: 6, last: 7, day: 8, done: true, after: 9}
	f.Add(i.bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		i, ok := readIdentity(data)
		if !ok {
			return
		}
		written := i.bytes()
		again, ok := readIdentity(written)
		if !ok || !bytes.Equal(again.bytes(), written) {
			t.Fatalf("%+v is read as %+v", i, again)
		}
	})
}
