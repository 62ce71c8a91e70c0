package bench

import (
	"bufio"
	"compress/gzip"
	"os"
	"strings"
	"testing"
	"time"
)

// A replay is a real site's log in the combined format, repeated: each time later by the length of the log.
type replay struct {
	lines []replayLine
	next  int
	begin time.Time // of the round, and of the log
	was   time.Time
	long  time.Duration
}

// A replayLine is the text before and behind a line's time.
type replayLine struct {
	at           time.Time
	before, rest string
}

const clf = "02/Jan/2006:15:04:05 -0700"

// newReplay reads a log that is packed with gzip. So many of its lines end an hour ago.
func newReplay(b *testing.B, path string, lines int) *replay {
	b.Helper()
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		b.Fatal(err)
	}
	r := &replay{}
	scan := bufio.NewScanner(plain)
	for scan.Scan() {
		before, rest, _ := strings.Cut(scan.Text(), "[")
		if len(rest) < len(clf) {
			continue
		}
		at, err := time.Parse(clf, rest[:len(clf)])
		if err != nil {
			b.Fatal(err)
		}
		r.lines = append(r.lines, replayLine{at, before, rest[len(clf):]})
	}
	if err := scan.Err(); err != nil || len(r.lines) == 0 {
		b.Fatal("nothing to replay in ", path, err)
	}
	r.was = r.lines[0].at
	r.long = r.lines[len(r.lines)-1].at.Sub(r.was) + time.Second
	rounds := lines/len(r.lines) + 1
	r.begin = time.Now().UTC().Truncate(time.Second).Add(-time.Duration(rounds)*r.long - time.Hour)
	return r
}

// line is the next line, its client and its time.
func (r *replay) line() (text, client string, at time.Time) {
	if r.next == len(r.lines) {
		r.next, r.begin = 0, r.begin.Add(r.long)
	}
	l := &r.lines[r.next]
	r.next++
	at = r.begin.Add(l.at.Sub(r.was))
	client, _, _ = strings.Cut(l.before, " ")
	return l.before + "[" + at.Format(clf) + l.rest, client, at
}
