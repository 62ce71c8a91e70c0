package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/internal/replace"
)

// lock makes other processes wait that change a file in the folder. The lock ends with the process at the latest, and
// leaves nothing behind.
func lock(folder string) (unlock func(), err error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("locking the folder of the API keys: %w", err)
	}

	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking the folder %s: %w", folder, err)
		}
	}
}

// writeFile writes a new file next to the old one, and puts it in its place when it is on the disk.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".keys-*") // readable by its owner only
	if err == nil {
		// Before the first byte is written: the keys' hashes are never readable by others, not even for a moment.
		failed := likeBefore(f, path)
		if failed == nil {
			_, failed = f.Write(data)
		}
		err = replace.With(f, path, failed)
	}
	if err != nil {
		return fmt.Errorf("writing the API keys: %w", err)
	}
	return nil
}

// likeBefore gives the file the owner, group and mode of the file that it replaces, so a daemon that could read the old
// one can read the new one. It removes permissions for everyone.
func likeBefore(f *os.File, path string) error {
	before, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	var owner unix.Stat_t
	if err := unix.Stat(path, &owner); err != nil {
		return err
	}

	// Only root may give files away, so it is asked for only if needed.
	if os.Geteuid() != int(owner.Uid) || os.Getegid() != int(owner.Gid) {
		if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}

	return f.Chmod(before.Mode().Perm() &^ 0o007)
}
