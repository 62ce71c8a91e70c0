package journald

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/pkg/collector/ordered"
)

// A file is what the header of a journal file says.
type file struct {
	path        string
	id          string // of the file, whatever its name
	machine     string // that has written it
	series      string
	head, tail  uint64 // the numbers of its first and last entry; head is 0 where it has none
	first, last int64  // their times, Unix µs
	active      bool   // by its name, entries may still be added
	bytes       uint64 // that it has by its header, at least
}

// headerBytes is how much of a header is read. The format of journal files has these fields in all its versions.
const headerBytes = 208

var signature = []byte("LPKSHHRH")

// readHeader reads a header. ok is false where it is that of no journal file, or of one that is being made and does not
// have its machine yet.
func readHeader(b []byte) (f file, ok bool) {
	if len(b) < headerBytes || string(b[:8]) != string(signature) || [16]byte(b[40:56]) == [16]byte{} {
		return f, false
	}
	id := func(at int) string { return hex.EncodeToString(b[at : at+16]) }
	number := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) & (1<<63 - 1) }
	return file{
		id: id(24), machine: id(40), series: id(72), tail: number(160), head: number(168),
		first: int64(number(184)), last: int64(number(192)), bytes: number(88) + number(96),
	}, true
}

func readHeaderAt(of io.ReaderAt) (f file, ok bool, err error) {
	b := make([]byte, headerBytes)
	n, err := of.ReadAt(b, 0)
	if errors.Is(err, io.EOF) { // it is being made
		err = nil
	}
	f, ok = readHeader(b[:n])
	return f, ok, err
}

// openFile reads the header of a file. It is gone where ok is false without an error.
func openFile(path string) (f file, ok bool, err error) {
	of, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, false, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return f, false, fmt.Errorf("%w; add our user to the group systemd-journal, or to the group of the files", err)
	}
	if err != nil {
		return f, false, err
	}
	defer of.Close()
	f, ok, err = readHeaderAt(of)
	f.path = path
	if err != nil || !ok {
		return f, false, err
	}
	info, err := of.Stat()
	if err != nil {
		return f, false, err
	}
	return f, true, f.complete(info)
}

// errCut means that a file is shorter than its header says, as after a loss of power. journalctl reads none of it, and
// no other file that it is given with it.
var errCut = errors.New("the file is cut off")

// cutAfter is how long a file that is cut off has not changed, when no one copies it any more.
const cutAfter = 30 * time.Second

// complete returns an error for a file that is cut off: errCut if nothing more is added to it.
func (f *file) complete(info fs.FileInfo) error {
	switch _, active, _ := cutName(info.Name()); {
	case uint64(info.Size()) >= f.bytes:
		return nil
	case active || time.Since(info.ModTime()) < cutAfter:
		return fmt.Errorf("%s is cut off, and journalctl cannot read it: it has %d bytes, and %d by its header; its log is read once another file has its name, as journald makes one when it starts",
			f.path, info.Size(), f.bytes)
	}
	return errCut
}

// cutName returns the log that a file belongs to by its name: system.journal, system@….journal and system@….journal~ are
// files of the log system.
func cutName(name string) (log string, active, ok bool) {
	base, dirty := strings.CutSuffix(name, "~")
	base, ok = strings.CutSuffix(base, ".journal")
	if at := strings.LastIndexByte(base, '@'); at >= 0 {
		return base[:at], false, ok
	}
	return base, !dirty, ok
}

// places are the folders of this machine's journal: on disk, or in memory where there is none on disk.
var places = []string{"/var/log/journal", "/run/log/journal"}

// folder returns the folder of the files.
func (o *Options) folder() (string, error) {
	if o.Folder != "" {
		return o.Folder, nil
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return "", err
	}
	for _, place := range places {
		folder := filepath.Join(place, strings.TrimSpace(string(machine)))
		if found, _ := filepath.Glob(filepath.Join(folder, "*.journal")); len(found) > 0 {
			return folder, nil
		}
	}
	return "", fmt.Errorf("this machine has no journal in %s: %w", strings.Join(places, " or "), ordered.ErrMissing)
}

// list returns the names of the files in a folder.
func list(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", folder, ordered.ErrMissing)
	case err != nil:
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// A series is a sequence of entries that are numbered one after the other, in one or several files. A journal that
// is made again begins another one.
type series struct {
	id         string
	machine    string
	files      []file
	head, tail uint64
	first      int64 // the time of its first entry
	last       int64 // the latest time of a last entry
	active     bool
}

// entries is how many entries it has, at most.
func (s *series) entries() int64 {
	if s.head == 0 {
		return 0
	}
	return int64(s.tail - s.head + 1)
}

// written reports whether any of some series has entries.
func written(all []*series) bool {
	return slices.ContainsFunc(all, func(s *series) bool { return s.head > 0 })
}

// readSeries returns the series of a log in the order in which they were written, without files that are cut off. The
// one that is being written is the last, and the others are in the order of their first entries' times.
func readSeries(folder, log string) ([]*series, error) {
	names, err := list(folder)
	for range mostMoves {
		if err != nil {
			return nil, err
		}
		var all []*series
		if all, err = readNamed(folder, log, names); err != nil {
			return nil, err
		}
		// A file that got another name meanwhile may be missing.
		before := names
		if names, err = list(folder); err == nil && slices.Equal(before, names) {
			return all, nil
		}
	}
	return nil, fmt.Errorf("%s: files come and go all the time", folder)
}

const mostMoves = 100

// readNamed is readSeries for the files of some names.
func readNamed(folder, log string, names []string) ([]*series, error) {
	var all []*series
	byID := map[string]*series{}
	for _, name := range names {
		of, active, ok := cutName(name)
		if !ok || of != log {
			continue
		}
		f, ok, err := openFile(filepath.Join(folder, name))
		if err != nil && !errors.Is(err, errCut) {
			return nil, err
		}
		if err != nil || !ok {
			continue
		}
		f.active = active
		s := byID[f.series]
		if s == nil {
			s = &series{id: f.series, machine: f.machine}
			byID[f.series] = s
			all = append(all, s)
		}
		s.add(f)
	}
	slices.SortStableFunc(all, func(a, b *series) int {
		switch {
		case a.active && !b.active:
			return 1
		case b.active && !a.active:
			return -1
		}
		return cmp.Compare(a.first, b.first)
	})
	return all, nil
}

func (s *series) add(f file) {
	s.files = append(s.files, f)
	s.active = s.active || f.active
	s.tail = max(s.tail, f.tail)
	if f.head == 0 {
		return
	}
	if s.head == 0 || f.head < s.head {
		s.head, s.first = f.head, f.first
	}
	s.last = max(s.last, f.last)
}

// from returns the files that may have entries after a number.
func (s *series) from(number uint64) (files []file) {
	for _, f := range s.files {
		if f.active || f.head > 0 && f.tail > number {
			files = append(files, f)
		}
	}
	return files
}
