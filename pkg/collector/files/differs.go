package files

import (
	"bytes"
	"os"

	"weir/internal/logfile"
	"weir/pkg/collector/tape"
)

// differ reports whether a file is another log, although it begins like a log that another family reads. The two files
// differ if other bytes stand where the log was read last, or at the end of the file if that comes first. Zeros are
// ignored: a copy in progress may have them where its bytes will be.
func (k *Logs) differ(log *knownLog, opened *os.File, file found) bool {
	k.mu.Lock()
	known, at := log.identity, log.tailAt
	log.longer = false
	k.mu.Unlock()
	if known.last == 0 || file.compressed != logfile.Plain {
		return false
	}
	if file.info.Size() >= at {
		there, ok := bytesBefore(opened, at, known.last)
		if ok && known.endsLike(there) && file.info.Size() > at && inodeOf(file.info) != known.id {
			k.mu.Lock()
			log.longer = true
			k.mu.Unlock()
		}
		return ok && !known.endsLike(there)
	}

	own, err := os.Open(known.live)
	if err != nil {
		return false
	}
	defer own.Close()
	there, ok := bytesBefore(opened, file.info.Size(), tape.TailBytes)
	logged, same := bytesBefore(own, file.info.Size(), tape.TailBytes)
	return ok && same && !bytes.Equal(there, logged) && known.isIn(own)
}

// isIn reports whether a file is still the one that the log was last read from, and begins like the log.
func (i *identity) isIn(own *os.File) bool {
	info, err := own.Stat()
	if err != nil || inodeOf(info) != i.id {
		return false
	}
	start, _, err := tape.Head(own, logfile.Plain)
	certain, _ := i.beginsLike(start)
	return err == nil && certain
}

// bytesBefore returns the bytes before a position; ok is false when some are missing or zero.
func bytesBefore(file *os.File, position int64, count int) (there []byte, ok bool) {
	there = make([]byte, min(int64(count), position))
	n, _ := file.ReadAt(there, position-int64(len(there)))
	return there, n == len(there) && n > 0 && bytes.IndexByte(there, 0) < 0
}

// isLonger reports whether another family's live file continues a log behind the last byte that was read of it.
func (k *Logs) isLonger(log *knownLog) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return log.longer
}
