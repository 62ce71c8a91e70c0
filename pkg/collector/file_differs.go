package collector

import (
	"bytes"
	"os"

	"weir/internal/logfile"
)

// differ says whether a file that begins as a log does, which another family reads, is another log all the same: where
// the log was read last, or where the file ends if that is before, other bytes stand in the two. Zeros say nothing: a
// copy that is being made may have them where its bytes will be.
func (k *knownLogs) differ(log *knownLog, opened *os.File, file found) bool {
	k.mu.Lock()
	known, at := log.identity, log.tailAt
	k.mu.Unlock()
	if known.last == 0 || file.compressed != logfile.Plain {
		return false
	}
	if file.info.Size() >= at {
		there, ok := bytesBefore(opened, at, known.last)
		return ok && !known.endsLike(there)
	}

	own, err := os.Open(known.live)
	if err != nil {
		return false
	}
	defer own.Close()
	there, ok := bytesBefore(opened, file.info.Size(), tailBytes)
	logged, same := bytesBefore(own, file.info.Size(), tailBytes)
	return ok && same && !bytes.Equal(there, logged) && known.isIn(own)
}

// isIn says whether a file is still the one that a log was last read from, and begins as it does.
func (i *identity) isIn(own *os.File) bool {
	info, err := own.Stat()
	if err != nil || inodeOf(info) != i.id {
		return false
	}
	start, _, err := head(own, logfile.Plain)
	certain, _ := i.beginsLike(start)
	return err == nil && certain
}

// bytesBefore are the bytes before a position; ok is false when they are not all there, or some are zeros.
func bytesBefore(file *os.File, position int64, count int) (there []byte, ok bool) {
	there = make([]byte, min(int64(count), position))
	n, _ := file.ReadAt(there, position-int64(len(there)))
	return there, n == len(there) && n > 0 && bytes.IndexByte(there, 0) < 0
}
