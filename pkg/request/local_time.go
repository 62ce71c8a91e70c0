package request

import (
	"strings"
	"time"
)

// A localTime tells the two hours of an autumn night apart in which clocks show the same: in a log whose times have no
// zone (HAProxy's), an hour is there twice. Of the two instants it takes the one that is nearer to the time that the
// line's own header says with its zone, or else nearer to what the log has come to. It cannot know which one is meant
// where a log has neither, because it begins within the hour; then it takes the first.
type localTime struct {
	header string // of syslog, of the line that is read
	last   int64  // what the log has come to
	hour   int64  // that was looked at last, in hours since 1970
	twice  bool   // whether some of it is there twice
}

const (
	hourMillis = 3_600_000
	// As far back a log goes when it is another one, or when a time was far ahead.
	forgotten = 3 * hourMillis
)

// settle is the instant that is meant by a local time, of which at is the first.
func (l *localTime) settle(at int64, zone *time.Location) int64 {
	if zone == time.UTC {
		return at
	}
	if hour := at / hourMillis; hour != l.hour {
		l.hour, l.twice = hour, false
		for quarter := range int64(4) {
			l.twice = l.twice || repeated(hour*hourMillis+quarter*hourMillis/4, zone) > 0
		}
	}

	if l.twice {
		second := at + repeated(at, zone)
		if near := l.near(); near > 0 && distance(second, near) < distance(at, near) {
			at = second
		}
	}

	if at > l.last || at < l.last-forgotten {
		l.last = at
	}
	return at
}

// near is what the instant has to be near to; 0 when nothing is known.
func (l *localTime) near() int64 {
	header := l.header
	if priority := strings.IndexByte(header, '>'); strings.HasPrefix(header, "<") && priority > 0 {
		header = strings.TrimPrefix(header[priority+1:], "1 ")
	}
	word, _, _ := strings.Cut(header, " ")
	if at, ok := timeISO(word, nil); ok && hasZone(word) {
		return at
	}
	return l.last
}

// repeated is how long after an instant the same clocks show the same time again, in milliseconds; 0 when they do not.
func repeated(at int64, zone *time.Location) int64 {
	local := time.UnixMilli(at).In(zone)
	_, end := local.ZoneBounds()
	if end.IsZero() {
		return 0
	}
	_, before := local.Zone()
	_, after := end.Zone()
	back := int64(before-after) * 1000
	if back <= 0 || at+back < end.UnixMilli() {
		return 0
	}
	return back
}

// hasZone tells whether a time that could be read names its zone, or is no local time at all.
func hasZone(text string) bool {
	switch {
	case len(text) > 10 && text[2] == '/':
		return strings.IndexByte(text, ' ') >= 0
	case len(text) > 19 && text[4] == '-':
		return strings.ContainsAny(text[19:], "Zz+-U")
	}
	return len(text) < 19 || text[4] != '-'
}

// Forget forgets what the log has come to, by which local times are told apart that are there twice: what follows is read
// as the beginning of another log.
func (d *Decoder) Forget() {
	if s, ok := d.parser.(*scanner); ok {
		*s.local = localTime{}
	}
}
