// Package journald reads the files of systemd's journal, as logs of package ordered. A journalctl reads them, in the
// export format.
//
// # Logs and positions
//
// A folder of journal files has a log for each name before @: system, user-1000, remote-web1. Its entries are in one or
// several series. In a series each entry has a number, and journalctl returns them in that order, whatever their times
// are. A journal that is made again is another series. So a log is read one series after the other, and a place is a series, a
// number in it, and which other series are read. Positions go on from one series to the next.
//
// Where a filter is given, or several logs share their numbers, numbers are missing between entries. So if files are
// deleted before they are read, the number of lost entries is an upper bound, and with a filter it is not known.
//
// # Processes
//
// While a log is being read, one journalctl runs for it. The last series is followed; the others are read to their end.
// A journalctl that finds another file under the name of one that it reads drops that one, with what it has not read
// there. So an entry that is in none of its files, by their headers, ends it, and another one reads them all.
// An entry that journalctl reads while it is being written lacks fields, and nothing says so. So where the last entry
// lacks one that is wanted, another child reads it again, once the next entry is there, or after a second.
//
// Once a second the headers of the files show whether there are others than the child reads; then another child begins
// at the same place. A child that ends is an error, and the next call starts another one.
//
// Bounds. A page has at most 2,000 entries, and about 1 MiB or one longer entry. A folder has at most 64 logs.
package journald

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/pkg/collector/ordered"
)

const (
	mostLogs     = 64
	pageEntries  = 2000
	pageBytes    = 1 << 20
	sampleOfLong = 1 << 10
	waitFor      = 500 * time.Millisecond
	lookEvery    = time.Second
	message      = "MESSAGE"

	// followFrom is how many entries may follow where a filter is given and a child follows the series: how many of them
	// pass the filter is only known to a child that reads to the end.
	followFrom = 5000
)

// Options say what is read.
type Options struct {
	Folder string // of journal files; empty is this machine's
	// Matches are FIELD=value. Of one field, an entry has one of the values; and it matches in all fields.
	Matches []string
	// Fields are named fields. With any, an entry is read as a JSON object with these and MESSAGE; else it is MESSAGE.
	Fields []string
	// Once reads up to the end and does not wait there: a page without entries has entries waiting until then.
	Once bool

	lookEvery time.Duration // for other files; 0 is a second
}

// Open finds the logs of a folder. Later there may be more.
func Open(o Options) ([]ordered.Log, error) {
	folder, err := o.folder()
	if err != nil {
		return nil, err
	}
	names, err := list(folder)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, name := range names {
		if log, _, ok := cutName(name); ok {
			found[log] = true
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no journal files: %w", folder, ordered.ErrMissing)
	}
	if len(found) > mostLogs {
		return nil, fmt.Errorf("%s has the journals of %d machines or users, but a source reads at most %d; make a folder for some of them, and a source for each folder", folder, len(found), mostLogs)
	}
	var logs []ordered.Log
	for _, name := range slices.Sorted(maps.Keys(found)) {
		logs = append(logs, &log{options: o, name: name})
	}
	return logs, nil
}

// A log is the journal of a machine or of a user.
type log struct {
	options Options
	name    string

	child   *child          // nil: none runs
	at      place           // after the last entry that the child gave
	tail    string          // of its ID
	given   map[string]bool // the IDs of the files that the child reads
	files   []file          // they
	checked bool            // the child has opened these files, and not others of the same names
	follows bool            // the child waits for more at the end
	over    bool            // a child has read all, and waited for nothing
	end     uint64          // all entries up to this number were there when the child was started
	behind  int64           // entries in the series after this one
	grows   *os.File        // the file that entries are added to; nil when there is none
	reach   uint64          // the last entry that it had when it was looked at
	looked  time.Time       // at the folder
	read    string          // the series that was read to its end last
	doubt   doubt           // about an entry, the last one that there was
}

func (l *log) String() string { return l.name }

// Close ends the child.
func (l *log) Close() { l.stop() }

func (l *log) stop() {
	if l.child != nil {
		l.child.end()
		l.child = nil
	}
	if l.grows != nil {
		_ = l.grows.Close() // it was only read
		l.grows = nil
	}
}

// series returns the series of the log.
func (l *log) series() ([]*series, error) {
	folder, err := l.options.folder()
	if err != nil {
		return nil, err
	}
	return readSeries(folder, l.name)
}

// Extent looks at the files.
func (l *log) Extent(ctx context.Context, was *ordered.Known) (e ordered.Extent, err error) {
	l.stop()
	all, err := l.series()
	if err != nil {
		return e, err
	}
	if was == nil {
		if len(all) == 0 {
			return e, ordered.ErrMissing
		}
		return l.extent(all), nil
	}

	at, err := placeOf(was.Place)
	if err != nil || len(all) == 0 { // they may come again
		return ordered.Extent{Identity: was.Identity, First: was.Place, Last: was.Place}, err
	}
	e = l.extent(all)
	now := slices.IndexFunc(all, func(s *series) bool { return s.id == at.series })
	left := at.rest(all)
	switch {
	case e.Identity != was.Identity:
		e.Other, e.Begin = "the files are the journal of another machine", e.First
		return e, nil
	case now < 0 && !written(left): // which entries are newer shows when there are some
		return e, nil
	case now < 0:
		e.Other = "the files that were read last are gone, perhaps with entries that were not read"
	default:
		agrees, err := l.agrees(ctx, all[now], at, len(left) == 0)
		if err != nil || agrees {
			return e, err
		}
		left = append([]*series{all[now]}, left...)
		e.Other = fmt.Sprintf("the journal went back, as after a loss of power or to an older copy: it does not have the entry any more that was read at %d", at.read)
	}
	e.Other += "; reading goes on with the entries that are newer than the last one"
	e.Begin, err = l.since(ctx, at, left, time.UnixMicro(at.time+1))
	return e, err
}

// agrees reports whether a series has the entry that was read last, as far as it has one of its number. The last series
// has it, unless it went back.
func (l *log) agrees(ctx context.Context, s *series, at place, last bool) (bool, error) {
	if last && at.number > s.tail {
		return false, nil
	}
	if at.read == 0 {
		return true, nil
	}
	e, ok, err := l.first(ctx, s, cursorArgument(s.id, at.read))
	return !ok || e.number != at.read || e.time == at.time, err
}

func cursorArgument(series string, number uint64) string {
	return "--cursor=s=" + series + ";i=" + strconv.FormatUint(number, 16)
}

// extent describes the log, which has series.
func (l *log) extent(all []*series) ordered.Extent {
	last := len(all) - 1
	return ordered.Extent{
		Identity: all[last].machine,
		First:    before(all, 0, max(1, all[0].head)-1).ordered(),
		Last:     before(all, last, all[last].tail).ordered(),
	}
}

// Since returns the place before the first entry that is not older than a time.
func (l *log) Since(ctx context.Context, at time.Time) (ordered.Place, error) {
	all, err := l.series()
	if err != nil {
		return ordered.Place{}, err
	}
	if len(all) == 0 {
		return ordered.Place{}, ordered.ErrMissing
	}
	return l.since(ctx, place{}, all, at)
}

// since is Since in some series; the others are read as a place says.
func (l *log) since(ctx context.Context, read place, all []*series, at time.Time) (ordered.Place, error) {
	from := 0
	for from < len(all)-1 && all[from].last < at.UnixMicro() {
		from++
	}
	s := all[from]
	p := before(all, from, s.tail)
	p.done = append(slices.Clone(read.done), p.done...)
	micros := max(0, at.UnixMicro())
	e, ok, err := l.first(ctx, s, fmt.Sprintf("--since=@%d.%06d", micros/1e6, micros%1e6))
	if err != nil {
		return ordered.Place{}, err
	}
	if ok {
		p.number = e.number - 1
	}
	return p.ordered(), nil
}

// first returns the first entry of a series from an argument on, whatever the filter is. The error is ordered.ErrOther if
// files got other names meanwhile.
func (l *log) first(ctx context.Context, s *series, from string) (e entry, ok bool, err error) {
	c, err := startChild(nil, append(argumentsFor(s.files), "--output-fields="+message, from))
	if err != nil {
		return e, false, err
	}
	defer c.end()
	for {
		e, err := c.next(ctx, waitFor)
		if (err == nil || errors.Is(err, io.EOF)) && !sameFiles(s.files) {
			return e, false, ordered.ErrOther
		}
		switch {
		case err == nil:
			return e, true, nil
		case errors.Is(err, io.EOF):
			return e, false, nil
		case !errors.Is(err, errNone):
			return e, false, err
		case ctx.Err() != nil:
			return e, false, context.Cause(ctx)
		}
	}
}

func argumentsFor(files []file) []string {
	arguments := []string{"--output=export", "--quiet", "--no-pager", "--lines=all"}
	for _, f := range files {
		arguments = append(arguments, "--file="+noPattern.Replace(f.path))
	}
	return arguments
}

// noPattern writes a path so that journalctl does not take it for a pattern.
var noPattern = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `{`, `\{`)
