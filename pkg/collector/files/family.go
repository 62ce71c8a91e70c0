package files

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"weir/internal/sleep"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/collector/tape"
	"weir/pkg/request"
)

const (
	finalAfter = 5 * time.Second // a file that is not live and was not written for so long is not written any more
)

// A beginning is where the unknown files of a pattern are read from.
type beginning struct {
	notBefore int64 // Unix ms; pace.NoTime is no limit
	skip      bool  // existing content is passed over: all of it, or the part older than notBefore
}

// A family is a live file and its rotated files: access.log, access.log.1, access.log.2.gz. Each file belongs to a
// log, and several files may belong to the same one (a copy, a compressed file). The family reads each log to its end,
// the oldest first, from whichever file has it. One goroutine does all of this.
type family struct {
	*owner
	in        *pipeline.Intake
	known     *Logs
	allBarred *barredFiles // of all families
	allRead   *readFiles   // of all families
	allEnds   *ends        // of all families
	folder    string
	name      string
	real      atomic.Pointer[string] // the path behind links
	began     beginning
	member    *pace.Member

	wake   chan struct{} // holds one
	polled atomic.Bool
	moved  atomic.Bool     // files came or went
	steady atomic.Bool     // the live log is read at each beat
	calmed chan<- struct{} // wakes the source when it is not any more
	growth growth

	logs                   []*fileLog            // open, oldest first
	undecided              bool                  // some files could not be assigned to a log yet
	barred                 map[string]error      // files that cannot be read, by path
	warned                 map[string]bool       // files that were logged as not read
	doubted, doubtedBefore map[string]time.Time  // files that the last scan took for copies, and since when
	finished               map[inode]os.FileInfo // files that have nothing to read until they change
	done                   map[inode]string      // those of them that were read to their end, with their paths
	broken                 map[inode]*brokenFile // the finished files that are cut off or damaged
	choice                 *request.Choice       // the format of the log before
}

// A fileLog is a log with an open file.
type fileLog struct {
	*knownLog
	known   *Logs
	stream  *pipeline.Stream
	tape    *tape.Tape
	inode   inode
	path    string
	suffix  string
	gone    bool        // no name leads to it
	ended   bool        // compressed, and read to its end
	endless bool        // a line that is too long was logged
	learned bool        // its first lines were asked for the format
	info    os.FileInfo // of the file before it was opened
	grown   time.Time
	at      time.Time
}

func (s *source) newFamily(path string, began beginning) *family {
	f := &family{
		in: s.in, known: s.known, allBarred: &s.barred, allRead: &s.read, allEnds: &s.ends,
		owner: &owner{path}, began: began, wake: make(chan struct{}, 1), calmed: s.calmed, growth: growth{beat: s.in.Batch()}, finished: map[inode]os.FileInfo{},
		done: map[inode]string{}, broken: map[inode]*brokenFile{}, warned: map[string]bool{},
	}
	f.folder, f.name = filepath.Dir(path), filepath.Base(path)
	f.real.Store(&path)
	return f
}

// woken makes the family look for new lines; moved means that files came or went.
func (f *family) woken(moved bool) {
	if moved {
		f.moved.Store(true)
	}
	sleep.Wake(f.wake)
}

// poll makes the family look without a notification.
func (f *family) poll() {
	f.polled.Store(true)
	f.woken(false)
}

// has reports whether a file may belong to the family.
func (f *family) has(folder, name string) bool {
	for _, live := range [2]string{f.path, *f.real.Load()} {
		base := filepath.Base(live)
		if folder == filepath.Dir(live) {
			if _, rotated := rotationOf(base, name); rotated || name == base {
				return true
			}
		}
	}
	return false
}

// lag is the number of bytes that wait to be read, if the file has a length.
func (log *fileLog) lag() (bytes int64, known bool) {
	info, err := log.tape.Stat()
	if err != nil {
		return 0, false
	}
	return max(0, info.Size()-log.tape.Position()), true
}

// keep returns the bytes that the journal keeps with a position.
func (log *fileLog) keep(position int64) []byte {
	log.known.mu.Lock()
	defer log.known.mu.Unlock()
	log.setTail(log.tape.Before(position))
	log.tailAt = position
	begins := log.tape.Beginning()
	if known := min(position, int64(len(begins))); known > int64(log.size) || known > 0 && log.blank() {
		log.setHead(begins[:known])
	}

	log.day = log.known.today()
	log.identity.id = log.inode
	return log.identity.bytes()
}

// broke notes that a packed file, in the state of info, is cut off or damaged. The family does not open it again until
// it changes.
func (f *family) broke(path string, info os.FileInfo, why error) *brokenFile {
	one := &brokenFile{path: path, info: info, found: f.in.Now(), why: why}
	f.finished[inodeOf(info)], f.broken[inodeOf(info)] = info, one
	f.undecided = true
	return one
}

// brokeEarly is broke for a file whose first line could not be read.
func (f *family) brokeEarly(file found, why error) { f.broke(file.path, file.info, why).unread = true }

// changedAgain forgets that a file is broken, so that the family reads it again.
func (f *family) changedAgain(file found) {
	id := inodeOf(file.info)
	if was := f.broken[id]; was != nil && was.logged {
		f.in.Logger().Info("a packed file that was cut off or damaged has changed: it is read again", "file", file.path)
	}
	delete(f.broken, id)
}

// reportBroken reports the broken files among the present ones: in the status, and once in the log. A file that was
// written just now may be unfinished, and is not reported yet.
func (f *family) reportBroken(files []found) {
	there := map[inode]bool{}
	for _, file := range files {
		id := inodeOf(file.info)
		there[id] = true
		one := f.broken[id]
		if one == nil || !unchanged(one.info, file.info) { // it is read on as soon as it is closed
			continue
		}

		one.path = file.path
		if !one.still(f.in.Now()) {
			f.undecided = true
			continue
		}

		fault := one.fault()
		f.barred[one.path] = brokenError{fault}
		if !one.logged {
			one.logged = true
			f.in.Logger().Error("a packed file is cut off or damaged", "file", one.path, "error", fault)
		}
	}

	for id := range f.broken {
		if !there[id] {
			delete(f.broken, id)
		}
	}
}

// bar notes that a file cannot be read. The family tries it again, and until then the source is not caught up.
func (f *family) bar(path string, err error) {
	f.undecided = true
	f.barred[path] = err
}

// refuse notes that a file has no readable log.
func (f *family) refuse(path string, why error) {
	why = fmt.Errorf("%s: %w", path, why)
	f.barred[path] = why
	f.notRead(path, "a file is not read", "why", why)
}

// notRead warns of a file that is not read, once.
func (f *family) notRead(path, why string, args ...any) {
	if !f.warned[path] {
		f.warned[path] = true
		f.in.Logger().Warn(why, append([]any{"file", path}, args...)...)
	}
}

// doubt notes that a file seems to be a copy, and returns for how long each scan has taken it for one. While a log is
// copied and truncated, it seems so for a moment.
func (f *family) doubt(path string) time.Duration {
	since, doubted := f.doubtedBefore[path]
	if !doubted {
		since = f.in.Now()
	}
	f.doubted[path] = since
	return f.in.Now().Sub(since)
}
