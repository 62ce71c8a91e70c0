// Package replace writes files completely or not at all: a crash at any point, also a loss of power, leaves the old file
// or the new one. It starts no goroutines, and waits for the disk.
package replace

import (
	"errors"
	"os"
	"path/filepath"
)

// File writes a file that only its owner can read. It writes to another name first, PATH.part, and makes the folder when
// that is missing.
func File(path string, write func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return With(file, path, write(file))
}

// With puts a file that was written in the same folder into the place of path, once it is on the disk. After an error,
// also the one of writing the file, it removes the file.
func With(file *os.File, path string, written error) error {
	if written == nil {
		written = file.Sync()
	}
	err := errors.Join(written, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the disk store the names of the files in a folder.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
