package request

import (
	"strings"
	"time"
)

// When clocks go back, an hour occurs twice in a log whose times have no zone (HAProxy's, some in JSON). A localTime
// decides which one is meant. Of the two instants it picks the one nearer to the time in the line's own header, if that
// has a zone, or else nearer to the latest time of the log. A log that begins within the hour has neither; then it picks
// the first.
//
// Both are times at which lines were written, so they are compared with the end of the request.
type localTime struct {
	zone   *time.Location // of the line's time, if it does not name one; else nil
	header string         // of syslog, of the line that is read
	last   int64          // latest time of the log
	hour   int64          // that was checked last, in hours since 1970
	twice  bool           // whether a part of it occurs twice
}

const (
	hourMillis = 3_600_000
	// A log that goes back this far is another one, or had a time that was far ahead.
	forgotten = 3 * hourMillis
)

// settle decides which instant the local time of r is. Until then, it is the first one.
func (l *localTime) settle(r *Request) {
	zone, at := l.zone, r.UnixMilli
	if zone == nil {
		return
	}
	if hour := at / hourMillis; hour != l.hour {
		// The zone's rules are looked up once per hour of the log. A stretch that repeats is longer than a quarter of
		// an hour.
		l.hour, l.twice = hour, false
		for quarter := range int64(4) {
			l.twice = l.twice || repeated(hour*hourMillis+quarter*hourMillis/4, zone) > 0
		}
	}

	if l.twice {
		second := at + repeated(at, zone)
		if near := l.near() - r.TookMilli; near > 0 && distance(second, near) < distance(at, near) {
			r.UnixMilli = second
		}
	}

	// A line slightly out of order does not move the latest time back.
	if end := r.UnixMilli + r.TookMilli; end > l.last || end < l.last-forgotten {
		l.last = end
	}
}

// settleText is settle for a time whose text may name its zone.
func (l *localTime) settleText(r *Request, text string, zone *time.Location) {
	if zone == time.UTC || hasZone(text) {
		return
	}
	l.zone = zone
	l.settle(r)
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// near is the time that the instant should be near to; 0 when nothing is known.
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

// repeated is the time in milliseconds after which the same clocks show the same time again; 0 when they do not.
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

// hasZone reports whether a time that could be read names its zone, or is not a local time at all.
func hasZone(text string) bool {
	switch {
	case len(text) > 10 && text[2] == '/':
		return strings.IndexByte(text, ' ') >= 0
	case len(text) > 19 && text[4] == '-':
		return strings.ContainsAny(text[19:], "Zz+-U")
	}
	return len(text) < 19 || text[4] != '-'
}

// Forget forgets the latest time of the log, which decides between local times that occur twice: the next record counts
// as the beginning of another log.
func (d *Decoder) Forget() {
	forget(d.parser)
	if d.fields != nil {
		d.fields.forget()
	}
}

// A rememberer is a parser that knows the latest time of its log.
type rememberer interface{ forget() }

func forget(p Parser) {
	if p, ok := p.(rememberer); ok {
		p.forget()
	}
}

func (s *scanner) forget() { *s.local = localTime{} }

func (p *jsonParser) forget() { p.local = localTime{} }
