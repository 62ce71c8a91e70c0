package pipeline

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/pkg/request"
	"weir/pkg/rule"
)

const (
	watchSpan   = 2000 // requests that are looked at together
	unreadShare = 0.05
	clockOff    = 55 * 60_000 // ms
)

// A watch looks for signs that a source is read wrongly.
type watch struct {
	records, failed int
	sample          string // of what could not be read

	// The address that sends a majority of the requests if any does, by the majority vote of Boyer and Moore; it is
	// counted in the span after the one that elected it.
	elected   netip.Addr
	votes     int
	accused   netip.Addr
	of        int
	requests  int
	addresses int // requests with one
	public    bool
	// Whether elected and accused are trusted proxies for which the log names no client.
	electedProxy, accusedProxy bool

	lacking []rule.Asked // fields that no request had yet, by the rules of by
	hosts   int          // requests that had a host
	by      *ruling

	dedupe string // the field of a source with dedupe
	values int    // requests that had it

	live bool // the backlog has been read

	logger *slog.Logger
	log    string
	warned *warnings
}

// request looks at a request that was read.
func (w *watch) request(r *request.Request, proxy bool, by *ruling, clock int64) {
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
	if r.IP.IsValid() {
		w.addresses++
	}
	w.public = w.public || r.IP.IsValid() && !r.IP.IsPrivate() && !r.IP.IsLoopback() && !proxy
	w.fields(by, r)
	if w.records >= watchSpan {
		w.judge()
	}
	if w.live || r.UnixMilli-clock >= clockOff { // a backlog may be old, but never in the future
		w.clock(clock, r.UnixMilli)
	}
}

// fields looks for the fields that rules ask for, until each has appeared once. A host has to be in half of the requests:
// clients that take the server for a proxy (GET http://a.example/) name one in logs that have no field for it.
func (w *watch) fields(by *ruling, r *request.Request) {
	if w.by != by {
		w.by, w.lacking, w.hosts = by, append(w.lacking[:0], by.asks...), 0
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
func (w *watch) unread(record string) {
	w.records++
	w.failed++
	if w.sample == "" && !w.warned.unread.Load() {
		w.sample = request.Sample(record)
	}
	if w.records >= watchSpan {
		w.judge()
	}
}

// judge ends a span.
func (w *watch) judge() {
	if float64(w.failed) > unreadShare*float64(w.records) && w.warned.unread.CompareAndSwap(false, true) {
		w.logger.Warn("many records cannot be read: is the format right?", "log", w.log, "unread", w.failed, "of", w.records, "for example", w.sample)
	}
	if w.accused.IsValid() && 2*w.of > w.requests && w.warned.one.CompareAndSwap(false, true) {
		what := "one address makes more than half of the requests: is it a proxy that client.trusted_proxies does not name?"
		if w.accusedProxy {
			what = "a trusted proxy makes more than half of the requests by itself: does the log have the header that names clients (client.header)?"
		}
		w.logger.Warn(what, "log", w.log, "address", w.accused, "requests", w.of, "of", w.requests)
	}

	if !w.public && w.addresses > watchSpan/2 && w.warned.private.CompareAndSwap(false, true) {
		w.logger.Warn("all clients have private addresses: are they behind a proxy that client.trusted_proxies does not name?", "log", w.log)
	}
	if w.requests > 0 && 2*w.hosts >= w.requests {
		w.lacking = slices.DeleteFunc(w.lacking, func(a rule.Asked) bool { return a.Field == "host" })
	}
	if w.requests > watchSpan/2 && len(w.lacking) > 0 {
		if w.warned.lacking.CompareAndSwap(false, true) {
			for _, field := range w.lacking {
				w.logger.Warn("no request has a field that rules ask for: does the log have it? These rules count nothing by it here", "log", w.log,
					"field", field.Field, "rules", strings.Join(field.By, ", "), "requests", w.requests)
			}
		}
		w.lacking = w.lacking[:0]
	}

	if w.dedupe != "" && w.requests > watchSpan/2 && w.values == 0 && w.warned.values.CompareAndSwap(false, true) {
		w.logger.Warn("no request has the field that dedupe names: does the log have it? All of them count", "log", w.log, "field", w.dedupe, "requests", w.requests)
	}

	// The vote only nominates an address. The next span counts its requests.
	w.accused, w.accusedProxy = w.elected, w.electedProxy
	w.elected, w.votes, w.of = netip.Addr{}, 0, 0
	w.records, w.failed, w.requests, w.addresses, w.hosts, w.values, w.public, w.sample = 0, 0, 0, 0, 0, 0, false, ""
}

// clock compares the time of a request that was logged just now, or before, with our clock.
func (w *watch) clock(now, at int64) {
	off := now - at
	if max(off, -off) >= clockOff && w.warned.clock.CompareAndSwap(false, true) {
		w.logger.Warn("requests have a time that is far from when they were logged: is the time zone right?", "log", w.log,
			"request", time.UnixMilli(at).UTC().Format(time.RFC3339), "off", (time.Duration(off) * time.Millisecond).Round(time.Minute))
	}
}
