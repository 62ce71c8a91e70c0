package enforcer

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"sync"
	"sync/atomic"

	"weir/pkg/inline"
)

// markLease names the attempt in the field for logs if its request ends with its line there (ends: log). A collector that
// reads the line then gives the id to End.
func (e *Enforcer) markLease(a *asking, header http.Header) {
	t := &a.attempt
	id := e.leases.of(t.request)
	for j, i := range t.rules {
		if a.ruling.limits[i].endsByLog && t.verdict.Taken[j].Admitted && t.verdict.Attempt != (inline.ID{}) {
			id = t.verdict.Attempt
			e.leases.note(t.request, id)
			break
		}
	}
	if id == (inline.ID{}) {
		return
	}

	mark := inline.LeaseMark(id)
	if before := header[markField]; len(before) > 0 {
		mark = before[0] + " " + mark
	}
	header[markField] = []string{mark}
}

// markRefusal names the rule that refuses a request in the field for logs, and the attempt that an earlier check of the
// same request began.
func (e *Enforcer) markRefusal(a *asking, header http.Header, rule string) {
	mark := markRefused + rule
	if id := e.leases.of(a.attempt.request); id != (inline.ID{}) {
		mark += " " + inline.LeaseMark(id)
	}
	header[markField] = []string{mark}
}

// leases are the attempts of the last requests that end by the log, by the names that edges give to requests. nginx may
// ask twice about a request: by its address, and then with its user. Its log has only the second answer, which has no
// attempt of its own if it refuses, for example. It names the first one's, so that the request's place is given back.
//
// A newer request may take the slot of an older one. There are many more slots than requests between two checks.
type leases struct {
	seed  maphash.Seed
	slots [16384]atomic.Pointer[lease]
}

type lease struct {
	request uint64 // a keyed hash: clients cannot choose a slot
	id      inline.ID
}

func (l *leases) note(request string, id inline.ID) {
	if request != "" {
		hash := maphash.String(l.seed, request)
		l.slots[hash%uint64(len(l.slots))].Store(&lease{hash, id})
	}
}

func (l *leases) of(request string) (id inline.ID) {
	if request == "" {
		return id
	}
	hash := maphash.String(l.seed, request)
	if found := l.slots[hash%uint64(len(l.slots))].Load(); found != nil && found.request == hash {
		id = found.id
	}
	return id
}

// End ends the requests of some attempts at the rules with ends: log, and returns how many were known. Their cost stays.
// It may be called again for the same attempts. It fails when Run ends.
func (e *Enforcer) End(ctx context.Context, ids []inline.ID) (known int, err error) {
	if !e.endings.TryRLock() { // only Run locks it
		return 0, errEnds
	}
	defer e.endings.RUnlock()
	r := e.ruling.Load()
	rules, _ := r.Rules.EndsByLog()
	ended, failed := make([]bool, len(ids)), make([]error, len(ids))
	var running sync.WaitGroup
	workers := 1 // of a memory
	if e.shared != nil {
		workers = endsTogether
	}
	for first := range min(workers, len(ids)) {
		running.Go(func() {
			for i := first; i < len(ids); i += workers {
				ended[i], failed[i] = e.endLogged(ctx, r, rules, ids[i])
			}
		})
	}
	running.Wait()

	for i := range ids {
		if ended[i] {
			known++
		}
		if err == nil {
			err = failed[i]
		}
	}
	return known, err
}

// endsTogether is how many attempts are ended at the same time in a shared store, which sends them together.
const endsTogether = 16

var errEnds = errors.New("the enforcer ends")

// endLogged ends the attempt that a log names: by its ID, or, where edges name requests, by the ID of its request. An edge
// that has given up a request does not have the attempt's ID.
func (e *Enforcer) endLogged(ctx context.Context, r *ruling, rules []string, id inline.ID) (known bool, err error) {
	known, err = e.endAttempt(ctx, rules, id)
	if known || r.requestID == "" {
		return known, err
	}

	// Also while the store fails: the attempt may be in the memory of this process.
	ids, failed := e.inline.IDsOf(ctx, id.String())
	err = cmp.Or(err, failed)
	for _, id := range ids {
		if known, failed = e.endAttempt(ctx, rules, id); known {
			return true, nil
		}
		err = cmp.Or(err, failed)
	}
	return false, err
}

// endAttempt ends one attempt at each of the rules.
func (e *Enforcer) endAttempt(ctx context.Context, rules []string, id inline.ID) (known bool, err error) {
	select {
	case <-e.ending:
		return false, errEnds
	case <-ctx.Done():
		return false, context.Cause(ctx)
	default:
	}
	for _, name := range rules {
		when, err := e.settle(ctx, name, id, inline.Kept)
		switch {
		case err == nil:
			known = true
			e.metrics.settled.Inc()
			e.history.settled(id, name, inline.Kept, when)
		case errors.Is(err, inline.ErrUnknown):
			return known, nil
		case !errors.Is(err, inline.ErrNotCounted):
			return known, err
		}
	}
	return known, nil
}

// mostEnded is how many attempts one request may end.
const mostEnded = 256

// An endsAnswer is how many of the attempts were known.
type endsAnswer struct {
	Ended int `json:"ended"`
}

// ends answers a collector that names attempts whose requests have ended.
func (e *Enforcer) ends(w http.ResponseWriter, r *http.Request, asked *settleRequest) error {
	if len(asked.Ended) > mostEnded || asked.Attempt != "" || asked.Rule != "" || asked.Cost != nil {
		return problemf(http.StatusBadRequest, `ended stands alone, with at most %d attempts: write {"ended": ["ID", …]}`, mostEnded)
	}
	ids := make([]inline.ID, 0, len(asked.Ended))
	for _, text := range asked.Ended {
		if id, err := inline.ParseID(text); err == nil { // no other text names an attempt
			ids = append(ids, id)
		}
	}
	known, err := e.End(r.Context(), ids)
	if err != nil {
		return problemf(http.StatusServiceUnavailable, "some of the attempts cannot be ended now; try again: %s", err)
	}
	writeJSON(w, http.StatusOK, endsAnswer{known})
	return nil
}
