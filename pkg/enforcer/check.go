package enforcer

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"weir/pkg/blocklist"
)

// check answers whether a request may go on.
func (e *Enforcer) check(w http.ResponseWriter, r *http.Request) {
	d := dialectOf(r.URL.Path, e.plain)
	if d == nil {
		w.Header().Set("Connection", "close")
		writeProblem(w, problemf(http.StatusNotFound, "edges ask at %s, %[1]s/nginx, %[1]s/ingress-nginx, %[1]s/traefik, %[1]s/caddy and %[1]s/envoy", checkPath))
		return
	}

	e.checkBy(e.ruling.Load(), w, r, d)
}

// checkBy checks by one ruling, so that all of a check is by the same rules. The memory for it belongs to them, so new
// rules have new memory.
func (e *Enforcer) checkBy(ruling *ruling, w http.ResponseWriter, r *http.Request, d *dialect) {
	a := ruling.askings.Get().(*asking)
	defer ruling.askings.Put(a)
	now := e.config.Now()
	e.tally.Checked(now.UnixMilli())
	said := e.ask(a, r, d, now)
	without := isEmpty(&said) && !e.config.Set.Whole() // manual entries made here are active even without a list
	if without && e.config.DenyWithoutList {
		e.denyWithoutList(w, d, now.UnixMilli())
		return
	}

	e.answer(w, d, a, said, without)
}

// ask asks the list about a request, once for each reading of it until one is refused. Otherwise the first answer is
// valid.
func (e *Enforcer) ask(a *asking, r *http.Request, d *dialect, now time.Time) (said blocklist.Answer) {
	a.attempt.reset()
	if a.ruling.requestID != "" {
		a.attempt.request = header(r, a.ruling.requestID)
	}
	read, next := d.readerOf(0, r)
	known, edge := a.read(r, read, now)
	e.logClientSettings(a, known, edge)
	// Without a client there is nothing to ask. The proxy itself must not be refused: that would refuse all of its
	// clients.
	if !known {
		return said
	}

	said = e.config.Set.Check(a.prepare(), now.UnixMilli())
	e.want(a, &said, now.UnixMilli())

	// A client may send the headers of another kind of edge, to be taken for another client. So each reading is asked,
	// and one refusal is enough.
	for !said.Entry.Found() {
		if read, next = d.readerOf(next, r); read == nil {
			break
		}
		e.faults.Note("dialect", errTwoReadings)
		a.read(r, read, now)
		other := e.config.Set.Check(a.prepare(), now.UnixMilli())
		if other.Entry.Found() {
			return other
		}
		e.want(a, &other, now.UnixMilli())
	}

	return said
}

var errTwoReadings = errors.New("checks carry headers of two kinds of edges, one of which a client may have sent, or a URL with a question mark in its host; they are refused if either reading is: " +
	"use the path of the edge (/v1/check/nginx, /ingress-nginx, /traefik, /caddy or /envoy), and have it clear the other headers")

func isEmpty(said *blocklist.Answer) bool {
	return !said.Entry.Found() && !said.Allowed.Found() && !said.Shadow.Found() && !said.Paused
}

var errNoClient = errors.New("checks name no client")

// logClientSettings logs a wrong setting of an edge: it names a client but is not trusted, or it names none and would be
// refused itself.
func (e *Enforcer) logClientSettings(a *asking, known bool, edge netip.Addr) {
	switch field := a.ruling.forwarded; {
	case !known:
		e.faults.Note("client", fmt.Errorf("%w: %s is a trusted proxy and sends none in %s; they are let through", errNoClient, edge, field))
	case a.request.Forwarded != "" && a.request.IP == edge && !edge.IsLoopback() && !a.ruling.Client.Trusts(edge):
		e.faults.Note("client", fmt.Errorf("%w: %s names one in %s and is no trusted proxy; add it to client.trusted_proxies", errNoClient, edge, field))
	}
}

// denyWithoutList refuses while there is no list, not even an old one.
func (e *Enforcer) denyWithoutList(w http.ResponseWriter, d *dialect, now int64) {
	e.metrics.withoutList.Inc()
	e.tally.Refused(now, nil, "")
	w.Header().Set(markField, markRefused+markWithoutList)
	w.Header().Set("Retry-After", "1")
	writeProblem(w, problemf(d.without, "there is no blocklist yet"))
}

// answer passes or refuses: by the list's answer first, then by the limits of inline rules.
func (e *Enforcer) answer(w http.ResponseWriter, d *dialect, a *asking, said blocklist.Answer, without bool) {
	header, ruling := w.Header(), a.ruling
	if said.Entry.Found() && !ruling.Shadow {
		e.refuseFor(w, d, a, said.Entry.Entry())
		return
	}
	refused, inShadow, paused := e.takeFor(w, d, a)
	if refused {
		return
	}

	switch {
	// An answer may have several of these. The cases are in the order of what decides.
	case without:
		e.metrics.withoutList.Inc()
		header[markField] = []string{markWithoutList}
	case said.Entry.Found():
		e.letThroughInShadow(header, ruling, said.Entry.Rule())
	case said.Allowed.Found():
		e.metrics.allowed.Inc()
		header[markField] = []string{markAllowed}
	case said.Paused || paused:
		e.metrics.paused.Inc()
		header[markField] = []string{markPaused}
	case said.Shadow.Found():
		e.letThroughInShadow(header, ruling, said.Shadow.Rule())
	case inShadow != "":
		e.letThroughInShadow(header, ruling, inShadow)
	default:
		e.metrics.passed.Inc()
	}
	e.markLease(a, header)

	w.WriteHeader(http.StatusOK)
}

func (e *Enforcer) refuseFor(w http.ResponseWriter, d *dialect, a *asking, entry *blocklist.Entry) {
	ruled, i := a.ruling.Rules.Rule(entry.Rule)
	counts := e.counts(a.ruling, i, entry.Rule)
	counts.refused.Inc()
	e.tally.Refused(a.request.UnixMilli, counts.tally, entry.ID)
	if e.config.Refused != nil {
		e.config.Refused(entry, a.request.IP)
	}
	e.markRefusal(a, w.Header(), entry.Rule)
	e.refuse(w, d.refusal, entry, ruled, a.request.UnixMilli)
}

func (e *Enforcer) letThroughInShadow(header http.Header, ruling *ruling, rule string) {
	_, i := ruling.Rules.Rule(rule)
	e.counts(ruling, i, rule).shadow.Inc()
	header[markField] = []string{markShadow + rule}
}

// counts returns the counters of a rule, or of manual entries.
func (e *Enforcer) counts(ruling *ruling, i int, rule string) ruleCounts {
	switch {
	case i >= 0:
		return ruling.counts[i]
	case rule == blocklist.ManualRule:
		return e.metrics.manual
	}
	return e.metrics.ruleCounts(rule)
}
