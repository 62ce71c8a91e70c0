package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock has other processes wait that change a file in the folder. The lock ends with the process at the latest, and
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

// replace writes the file anew beside the old one, and puts it in its place when the disk has it.
func replace(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".keys-*") // for its owner alone
	if err != nil {
		return fmt.Errorf("writing the API keys: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("writing the API keys: %w", err)
		}
	}()

	if err = likeBefore(f, path); err != nil {
		return err
	}
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}

	return syncFolder(filepath.Dir(path))
}

// likeBefore gives the file the owner, the group and the mode of the one that it replaces, so that a daemon that could
// read that one can read this one; what everyone was granted is taken back.
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

	if os.Geteuid() != int(owner.Uid) || os.Getegid() != int(owner.Gid) {
		if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}

	return f.Chmod(before.Mode().Perm() &^ 0o007)
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
