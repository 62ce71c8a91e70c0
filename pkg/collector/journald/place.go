package journald

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/pkg/collector/ordered"
)

// A place is a place in a log.
type place struct {
	series string
	number uint64   // of the last entry before it
	base   int64    // its position is this plus its number
	read   uint64   // the number of the entry that was read last; 0 when none was
	time   int64    // of that entry, Unix µs, also where it has another series
	done   []string // the beginnings of the IDs of the other series that are read, as far as there are files of them
}

// A place has at most this many series; of more, the oldest ones are read again.
const (
	mostDone  = 200
	doneBytes = 8 // of an ID
)

func (p place) position() int64 { return p.base + int64(p.number) }

func (p place) ordered() ordered.Place {
	return ordered.Place{Position: p.position(), ID: p.id(p.tail())}
}

// id is the ID of the place; tail is what tail returns.
func (p place) id(tail string) string {
	return p.series + ":" + strconv.FormatUint(p.read, 36) + ":" + strconv.FormatInt(p.time, 36) + tail
}

// tail is the part of the ID that all places of a series have in common.
func (p place) tail() string {
	return ":" + strconv.FormatInt(p.base, 36) + ":" + strings.Join(p.done, ",")
}

func placeOf(o ordered.Place) (p place, err error) {
	parts := strings.Split(o.ID, ":")
	if len(parts) != 5 || !isID(parts[0]) {
		return p, fmt.Errorf("%q is not a place in a journal", o.ID)
	}
	read, err := strconv.ParseUint(parts[1], 36, 64)
	at, err2 := strconv.ParseInt(parts[2], 36, 64)
	base, err3 := strconv.ParseInt(parts[3], 36, 64)
	if cmp.Or(err, err2, err3) != nil || base > o.Position {
		return p, fmt.Errorf("%q is not a place in a journal", o.ID)
	}
	p = place{series: parts[0], number: uint64(o.Position - base), base: base, read: read, time: at}
	if parts[4] != "" {
		p.done = strings.Split(parts[4], ",")
	}
	return p, nil
}

// isDone reports whether a series is read.
func (p place) isDone(s *series) bool { return slices.Contains(p.done, s.id[:doneBytes]) }

// rest returns the series of all that are neither read nor being read.
func (p place) rest(all []*series) (rest []*series) {
	for _, s := range all {
		if s.id != p.series && !p.isDone(s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// next is the place before the first entry of another series.
func (p place) next(all []*series, to *series) place {
	n := place{series: to.id, number: max(1, to.head) - 1, time: p.time}
	n.base = p.position() - int64(n.number)
	for _, s := range all {
		if s != to && (p.isDone(s) || s.id == p.series) {
			n.done = append(n.done, s.id[:doneBytes])
		}
	}
	n.done = n.done[max(0, len(n.done)-mostDone):]
	return n
}

// before is the place before the first entry of all after a number of a series, where those before it are done.
func before(all []*series, at int, number uint64) place {
	p := place{series: all[at].id, number: number}
	for _, s := range all[:at] {
		p.done = append(p.done, s.id[:doneBytes])
	}
	p.done = p.done[max(0, len(p.done)-mostDone):]
	return p
}
