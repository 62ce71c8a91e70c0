package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// A folder belongs to one collector, which locks it while it runs. The lock file contains the watermark: how far the
// journal was certainly written. A collector that finds the journal shorter than its watermark knows that it went
// back.
type folder struct {
	path string
	lock *os.File
}

// A mark is the size of the journal when it was last synced. The mark itself is not synced: it may be older than the
// journal, and never newer.
type mark struct {
	Collector  string `json:"collector"`
	Generation uint64 `json:"generation"`
	Bytes      int64  `json:"bytes"`
}

const markBytes = 128

func lockFolder(path string) (*folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("making the collector's folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the collector's folder: %w", err)
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return &folder{path, lock}, nil
	}

	lock.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("the collector's folder %s is in use by another process", path)
	}
	return nil, fmt.Errorf("locking the collector's folder %s: %w", path, err)
}

// unlock unlocks the folder also while a child that has not begun its program has the file open.
func (f *folder) unlock() {
	_ = syscall.Flock(int(f.lock.Fd()), syscall.LOCK_UN) // Close unlocks it otherwise
	f.lock.Close()
}

func (f *folder) in(name string) string { return filepath.Join(f.path, name) }

// mark returns the mark that was set last; the zero mark when none can be read.
func (f *folder) mark() (m mark) {
	text := make([]byte, markBytes)
	n, _ := f.lock.ReadAt(text, 0)
	if json.Unmarshal(text[:n], &m) != nil {
		return mark{}
	}
	return m
}

// setMark makes one write of constant length, so that a kill leaves the old mark or the new one.
func (f *folder) setMark(m mark) error {
	text, _ := json.Marshal(m)
	_, err := f.lock.WriteAt(append(fmt.Appendf(nil, "%-*s", markBytes-1, text), '\n'), 0)
	return err
}
