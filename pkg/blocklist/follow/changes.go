package follow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"weir/pkg/blocklist"
)

// A changeLog is the file next to a snapshot with the changes since then: one delta of the list after the other, each
// with its length (4 bytes, little endian) before it, and its checksum in it. Only the last delta can be cut off by a
// kill. Deltas of an older snapshot are skipped.
type changeLog struct {
	path  string
	file  *os.File
	begun bool // it follows the snapshot
}

// maxDelta bounds the bytes of a delta.
const maxDelta = 64 << 20

var errNoChanges = errors.New("the single changes are not known")

// begin empties the log, because a snapshot has everything.
func (l *changeLog) begin() error {
	l.close()
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("keeping the list's changes: %w", err)
	}
	l.file, l.begun = file, true
	return nil
}

// add writes the changes after a version, and returns when they are on the disk.
func (l *changeLog) add(set *blocklist.Set, after blocklist.Version, nowMilli int64) (blocklist.Header, error) {
	var b bytes.Buffer

	// Room for the length, so that the delta and its length are one write.
	b.Write(make([]byte, 4))
	header, known, err := set.WriteChanges(&b, after, nowMilli)
	switch {
	case err != nil:
		return header, fmt.Errorf("keeping the list's changes: %w", err)
	case !known || b.Len() > maxDelta || l.gone():
		return header, errNoChanges
	}

	binary.LittleEndian.PutUint32(b.Bytes(), uint32(b.Len()-4))
	if _, err = l.file.Write(b.Bytes()); err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return header, fmt.Errorf("keeping the list's changes in %s: %w", l.path, err)
	}

	return header, nil
}

// gone reports that the file was deleted or replaced: writes to it are now lost.
func (l *changeLog) gone() bool {
	if l.file == nil {
		return false
	}
	opened, err := l.file.Stat()
	if err != nil {
		return true
	}
	there, err := os.Stat(l.path)
	return err != nil || !os.SameFile(opened, there)
}

func (l *changeLog) close() {
	if l.file != nil {
		_ = l.file.Close() // written deltas are already synced
	}
	l.file, l.begun = nil, false
}

// read applies the changes to a Set that has the snapshot, and returns the number of deltas.
func (l *changeLog) read(set *blocklist.Set, nowMilli int64) (deltas int, err error) {
	file, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the list's changes: %w", err)
	}
	defer file.Close()
	for {
		delta, err := next(file)
		if err == nil && delta == nil {
			return deltas, nil
		}
		if err != nil {
			return deltas, fmt.Errorf("reading the list's changes in %s: %w", l.path, err)
		}

		_, err = set.ReadKept(bytes.NewReader(delta), nowMilli)
		switch {
		case err == nil:
			deltas++
		// A kill between the snapshot and begin leaves deltas of the snapshot before.
		case errors.Is(err, blocklist.ErrWentBack), errors.Is(err, blocklist.ErrOtherList): // of an older snapshot
		// Deltas follow one another: without this one, none of the later ones fits.
		default:
			return deltas, fmt.Errorf("reading the list's changes in %s: %w", l.path, err)
		}
	}
}

// next reads a delta; it returns nil at the end, or where a kill cut the last one off.
func next(file io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(file, length[:]); err != nil {
		return nil, unlessCut(err)
	}

	n := binary.LittleEndian.Uint32(length[:])
	if n > maxDelta {
		return nil, fmt.Errorf("%w: a delta of %d bytes", blocklist.ErrDamaged, n)
	}

	var delta bytes.Buffer
	if _, err := io.CopyN(&delta, file, int64(n)); err != nil {
		return nil, unlessCut(err)
	}
	return delta.Bytes(), nil
}

func unlessCut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
