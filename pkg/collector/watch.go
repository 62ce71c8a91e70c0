package collector

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir/pkg/request"
	"weir/pkg/rule"
)

const (
	watchSpan   = 2000 // requests that are looked at together
	unreadShare = 0.05
	clockOff    = 55 * 60_000 // ms
)

// warnings note which warnings a source has logged: each only once.
type warnings struct{ one, private, unread, clock, lacking atomic.Bool }

// A watch looks for signs that a source is read wrongly.
type watch struct {
	records, failed int
	sample          string // of what could not be read

	// The address that sends a majority of the requests if any does, by the majority vote of Boyer and Moore; it is
	// counted in the span after the one that elected it.
	elected  netip.Addr
	votes    int
	accused  netip.Addr
	of       int
	requests int
	public   bool
	// Whether elected and accused are trusted proxies for which the log names no client.
	electedProxy, accusedProxy bool

	lacking []rule.Asked // fields that no request had yet, by the rules of by
	hosts   int          // requests that had a host
	by      *ruling

	live bool // the backlog has been read
}

// request looks at a request that was read.
func (w *watch) request(s *stream, r *request.Request, proxy bool) {
	w.records++
	w.requests++
	if r.IP == w.elected {
		w.votes++
	} else if w.votes--; w.votes < 0 {
		w.elected, w.votes, w.electedProxy = r.IP, 1, proxy
	}

	if r.IP == w.accused {
		w.of++
	}
	w.public = w.public || r.IP.IsValid() && !r.IP.IsPrivate() && !r.IP.IsLoopback() && !proxy
	w.fields(s, r)
	if w.records >= watchSpan {
		w.judge(s)
	}
	if w.live || r.UnixMilli-s.open.Clock >= clockOff { // a backlog may be old, but never in the future
		w.clock(s, r.UnixMilli)
	}
}

// fields looks for the fields that rules ask for, until each has appeared once. A host has to be in half of the requests:
// clients that take the server for a proxy (GET http://a.example/) name one in logs that have no field for it.
func (w *watch) fields(s *stream, r *request.Request) {
	if w.by != s.ruling {
		w.by, w.lacking, w.hosts = s.ruling, append(w.lacking[:0], s.ruling.asks...), 0
	}
	for i := len(w.lacking) - 1; i >= 0; i-- {
		switch field := w.lacking[i].Field; {
		case !r.Has(field):
		case field == "host":
			w.hosts++
		default:
			w.lacking = slices.Delete(w.lacking, i, i+1)
		}
	}
}

// unread looks at a record that could not be read.
func (w *watch) unread(s *stream) {
	w.records++
	w.failed++
	if w.sample == "" && !s.warned.unread.Load() {
		w.sample = request.Sample(s.record)
	}
	if w.records >= watchSpan {
		w.judge(s)
	}
}

// judge ends a span.
func (w *watch) judge(s *stream) {
	if float64(w.failed) > unreadShare*float64(w.records) && s.warned.unread.CompareAndSwap(false, true) {
		s.logger.Warn("many records cannot be read: is the format right?", "log", s.log, "unread", w.failed, "of", w.records, "for example", w.sample)
	}
	if w.accused.IsValid() && 2*w.of > w.requests && s.warned.one.CompareAndSwap(false, true) {
		what := "one address makes more than half of the requests: is it a proxy that client.trusted_proxies does not name?"
		if w.accusedProxy {
			what = "a trusted proxy makes more than half of the requests by itself: does the log have the header that names clients (client.header)?"
		}
		s.logger.Warn(what, "log", s.log, "address", w.accused, "requests", w.of, "of", w.requests)
	}

	if !w.public && w.requests > watchSpan/2 && s.warned.private.CompareAndSwap(false, true) {
		s.logger.Warn("all clients have private addresses: are they behind a proxy that client.trusted_proxies does not name?", "log", s.log)
	}
	if w.requests > 0 && 2*w.hosts >= w.requests {
		w.lacking = slices.DeleteFunc(w.lacking, func(a rule.Asked) bool { return a.Field == "host" })
	}
	if w.requests > watchSpan/2 && len(w.lacking) > 0 {
		if s.warned.lacking.CompareAndSwap(false, true) {
			for _, field := range w.lacking {
				s.logger.Warn("no request has a field that rules ask for: does the log have it? These rules count nothing by it here", "log", s.log,
					"field", field.Field, "rules", strings.Join(field.By, ", "), "requests", w.requests)
			}
		}
		w.lacking = w.lacking[:0]
	}

	// The vote only nominates an address. The next span counts its requests.
	w.accused, w.accusedProxy = w.elected, w.electedProxy
	w.elected, w.votes, w.of = netip.Addr{}, 0, 0
	w.records, w.failed, w.requests, w.hosts, w.public, w.sample = 0, 0, 0, 0, false, ""
}

// clock compares the time of a request that was logged just now, or before, with our clock.
func (w *watch) clock(s *stream, at int64) {
	off := s.open.Clock - at
	if max(off, -off) >= clockOff && s.warned.clock.CompareAndSwap(false, true) {
		s.logger.Warn("requests have a time that is far from when they were logged: is the time zone right?", "log", s.log,
			"request", time.UnixMilli(at).UTC().Format(time.RFC3339), "off", (time.Duration(off) * time.Millisecond).Round(time.Minute))
	}
}

// unread counts the record that is being read as unreadable.
func (s *stream) unread(why reason) {
	s.tally.requests++
	s.tally.uncounted[why]++
	s.watch.unread(s)
}
