//go:build linux

package real

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The disk has the requested size.
func TestSmallDisk(t *testing.T) {
	disk, here := SmallDisk(t, "1m")
	if !here {
		return
	}
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("2 MiB on a disk of 1 MiB: %v", err)
	}
}
