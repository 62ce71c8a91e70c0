package files

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"weir/internal/logfile"
	"weir/pkg/collector/tape"
)

// differ reports whether a file is another log, although it begins like this one. The two differ if other bytes stand
// where the log was read last, or at the end of the file if that comes first. Zeros are ignored: a copy in progress may
// have them where its bytes will be.
func (k *Logs) differ(log *knownLog, opened *os.File, file found) bool {
	k.mu.Lock()
	known, at := log.identity, log.tailAt
	log.longer = false
	k.mu.Unlock()
	if known.last == 0 {
		return false
	}

	there, end, ok := textBefore(opened, file.compressed, at, tape.TailBytes)
	if !ok {
		return false
	}
	if end == at {
		same := known.endsLike(there)
		if same && file.compressed == logfile.Plain && file.info.Size() > at && inodeOf(file.info) != known.id {
			k.mu.Lock()
			log.longer = true
			k.mu.Unlock()
		}
		return !same
	}

	own := known.open()
	if own == nil {
		return false
	}
	defer own.Close()
	compressed, ok := known.isIn(own, at)
	if !ok {
		return false
	}
	logged, until, ok := textBefore(own, compressed, end, tape.TailBytes)
	return ok && until == end && !bytes.Equal(there, logged)
}

// open opens the file that the log was last read from, under the name that it has now. It returns nil where there is
// none.
func (i *identity) open() *os.File {
	own, err := os.Open(i.live)
	if err == nil && i.isFile(own) {
		return own
	}
	if err == nil {
		own.Close()
	}
	folder := filepath.Dir(i.live)
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if _, rotated := rotationOf(filepath.Base(i.live), entry.Name()); !rotated || !entry.Type().IsRegular() {
			continue
		}
		if own, err = os.Open(filepath.Join(folder, entry.Name())); err != nil {
			continue
		}
		if i.isFile(own) {
			return own
		}
		own.Close()
	}
	return nil
}

// isFile reports whether a file is the one that the log was last read from.
func (i *identity) isFile(own *os.File) bool {
	info, err := own.Stat()
	return err == nil && inodeOf(info) == i.id
}

// isIn reports whether a file still has what was read of the log, up to a position, and how it is compressed.
func (i *identity) isIn(own *os.File, position int64) (compressed logfile.Kind, ok bool) {
	start := make([]byte, logfile.HeadBytes)
	n, err := own.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return compressed, false
	}
	if compressed, err = logfile.KindOf(start[:n]); err != nil {
		return compressed, false
	}
	head, _, err := tape.Head(own, compressed)
	if certain, _ := i.beginsLike(head); err != nil || !certain || compressed != logfile.Plain {
		return compressed, err == nil && certain
	}
	before, until, ok := textBefore(own, compressed, position, tape.TailBytes)
	return compressed, ok && until == position && i.endsLike(before)
}

// textBefore returns the bytes of a file's text before a position, or before its end if that comes first, and where
// they end; ok is false when some are missing or zero, as in a file that is not complete yet.
func textBefore(file *os.File, compressed logfile.Kind, position int64, count int) (there []byte, end int64, ok bool) {
	if compressed == logfile.Plain {
		info, err := file.Stat()
		if err != nil {
			return nil, 0, false
		}
		end = min(position, info.Size())
		there = make([]byte, min(int64(count), end))
		n, _ := file.ReadAt(there, end-int64(len(there)))
		return there, end, n == len(there) && n > 0 && bytes.IndexByte(there, 0) < 0
	}

	reader, err := logfile.Unpack(compressed, io.NewSectionReader(file, 0, 1<<62))
	if err != nil {
		return nil, 0, false
	}
	defer reader.Close()
	last := &lastBytes{count: count}
	end, err = io.CopyN(last, reader, position)
	return last.bytes, end, (err == nil || err == io.EOF) && end > 0 && bytes.IndexByte(last.bytes, 0) < 0
}

// lastBytes keeps the last bytes that are written to it.
type lastBytes struct {
	bytes []byte
	count int
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.bytes = append(l.bytes, p[max(0, len(p)-l.count):]...)
	l.bytes = append(l.bytes[:0], l.bytes[max(0, len(l.bytes)-l.count):]...)
	return len(p), nil
}

// isLonger reports whether another family's live file continues a log behind the last byte that was read of it.
func (k *Logs) isLonger(log *knownLog) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return log.longer
}
