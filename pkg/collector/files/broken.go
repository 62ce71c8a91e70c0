package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"weir/internal/logfile"
	"weir/pkg/collector/tape"
)

// closeAfter is for how long a file was not written that is closed.
const closeAfter = 30 * time.Second

// A brokenFile is a packed file that cannot be read to its end: it is cut off, or damaged.
type brokenFile struct {
	path   string
	info   os.FileInfo // as it was found; another size or time means that it is looked at again
	found  time.Time
	why    error
	unread bool // none of it could be read
	logged bool
}

// errBroken marks the error of a file that is not read further until it changes.
var errBroken = errors.New("the packed file is not complete")

type brokenError struct{ error }

func (brokenError) Is(target error) bool { return target == errBroken }

// isBroken reports whether an error is about the content of a packed file, not about reading it.
func isBroken(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) || tape.IsDamage(err) }

// still reports whether the file was not written for so long that no process writes it any more. A modification time
// ahead of our clock is ignored.
func (b *brokenFile) still(now time.Time) bool {
	since := b.info.ModTime()
	if since.After(b.found) {
		since = b.found
	}
	return now.Sub(since) > closeAfter
}

// moved reports whether the file was replaced, changed or deleted.
func (b *brokenFile) moved() bool {
	info, err := os.Stat(b.path)
	return err != nil || inodeOf(info) != inodeOf(b.info) || !unchanged(b.info, info)
}

func unchanged(was, is os.FileInfo) bool {
	return was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
}

// fault describes the problem of the file, and the remedy.
func (b *brokenFile) fault() error {
	read := "it is read up to there"
	if b.unread {
		read = "nothing of it can be read"
	}
	const remedy = "put a complete copy in its place, which is read on from there, or move it away"
	switch {
	case errors.Is(b.why, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s is cut off: %s; %s", b.path, read, remedy)
	case errors.Is(b.why, logfile.ErrBehind):
		return fmt.Errorf("%s is read up to the end of its packed text: %w; pack it again, or move it away", b.path, b.why)
	}
	return fmt.Errorf("%s is damaged: %s: %w; %s", b.path, read, b.why, remedy)
}
