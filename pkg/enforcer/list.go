package enforcer

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir/internal/keys"
	"weir/internal/limited"
	"weir/pkg/blocklist"
	"weir/pkg/blocklist/follow"
)

// Header fields of an answer with a list.
const (
	versionField = "Weir-Version"
	localField   = "Weir-Local" // names the orders in it that wait for the log
	asOfField    = "Weir-As-Of"
	cutField     = "Weir-Cut" // how many entries top left out
)

// blocklist is GET /v1/blocklist: the list, or its changes, completely or not at all.
func (e *Enforcer) blocklist(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Read); err != nil {
		return err
	}
	q, err := readListRequest(r)
	if err != nil {
		return err
	}
	if q.form == eventStream {
		return e.stream(w, r, q)
	}

	if newest := r.Header.Get(follow.NewestField); q.since && newest != "" && e.config.Set.Contradicts(q.after, newest) {
		q.after, q.wait = blocklist.Version{}, 0 // all of the list, at once
	}
	if q.since && q.wait > 0 {
		if err := e.wait(r.Context(), q); err != nil {
			return err
		}
		if _, err := e.Admit(r, keys.Read); err != nil { // the key may have been removed meanwhile
			return err
		}
	}

	return e.write(w, r, q)
}

// wait returns when the list has changed since the client's version, when the time is over, or when the enforcer ends.
func (e *Enforcer) wait(ctx context.Context, q *listRequest) error {
	leave, err := e.follows()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, q.wait)
	defer cancel()
	defer e.endWith(cancel)()
	e.config.Set.Wait(ctx, q.after, q.local)
	return nil
}

// follows counts a follower until leave is called.
func (e *Enforcer) follows() (leave func(), err error) {
	if e.following.Add(1) > maxFollowers {
		e.following.Add(-1)
		return nil, problemf(http.StatusServiceUnavailable, "%d followers are connected, and no more are accepted", maxFollowers)
	}
	e.metrics.followers.Inc()
	return func() {
		e.following.Add(-1)
		e.metrics.followers.Dec()
	}, nil
}

// endWith calls cancel when the enforcer ends, unless stop was called before.
func (e *Enforcer) endWith(cancel context.CancelFunc) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-e.ending:
			cancel()
		case <-done:
		}
	}()
	return func() { close(done) }
}

func (e *Enforcer) write(w http.ResponseWriter, r *http.Request, q *listRequest) error {
	set := e.config.Set
	local := set.Local() // before the list, which may have more
	state := set.State()
	if !state.Whole {
		return listProblem(blocklist.ErrNoList)
	}

	header := w.Header()
	header.Set("Content-Type", q.form)
	header.Set("Cache-Control", "no-cache")
	header.Set("Vary", "Accept, Accept-Encoding")
	header.Set(versionField, state.Version.String())
	header.Set(localField, local)
	header.Set(asOfField, time.UnixMilli(state.AsOf).UTC().Format(time.RFC3339))
	// A client that asks for changes has a version of its own; ETags are for those that fetch the complete list again.
	if !q.since {
		tag := q.etag(state, local)
		header.Set("ETag", tag)
		if strings.Contains(q.answers, tag) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}

	if r.Method == http.MethodHead {
		return nil
	}

	// The answers before this line cost nothing, and need no place.
	leave, err := e.mayList(r, q)
	if err != nil {
		return err
	}
	defer leave()
	if q.reached != (blocklist.Version{}) {
		header.Set(versionField, q.reached.String())
	}
	return e.writeBody(hurry(w), q)
}

// Any number of clients may ask for changes, and an answer is in memory until its client has read it. So only a few get
// many changes at once; the others get the first ones, and ask for more.
const (
	manyChanges   = 16 << 10
	fewChanges    = 128
	maxCatchingUp = 16
)

// mayList waits for a place for an answer of more than a delta.
func (e *Enforcer) mayList(r *http.Request, q *listRequest) (leave func(), err error) {
	if q.top > 0 { // the answer is kept in memory
		return e.mayFind(r)
	}
	if q.since {
		if changes, _, known := e.config.Set.Changes(q.after, fewChanges+1); known {
			return e.mayCatchUp(r, q, len(changes)), nil
		}
	}
	return place(r, e.listing, "are answered with the list")
}

// mayCatchUp takes a place for an answer with many changes, if there is one.
func (e *Enforcer) mayCatchUp(r *http.Request, q *listRequest, changes int) (leave func()) {
	leave, ok := func() {}, false
	if changes > fewChanges {
		leave, ok = e.catchingUp.TryTake(r)
	}
	if !ok {
		leave, q.most = func() {}, fewChanges
	}

	// A client that asks for the changes after this version next has to get those that are left out now.
	q.reached = e.config.Set.LeadsTo(q.after, q.most)
	return leave
}

// writeBody writes the list. After its first byte, an error ends the connection: no reader accepts the part as a list.
func (e *Enforcer) writeBody(w http.ResponseWriter, q *listRequest) error {
	e.turns.acquire()
	defer e.turns.release()
	to := &patientWriter{to: w, turns: e.turns}
	err := e.writeTo(to, w.Header(), q)
	if err == nil {
		return nil
	}
	if to.begun {
		panic(http.ErrAbortHandler)
	}

	// The answer is an error now, and must not look like a version of the list.
	for _, field := range []string{"ETag", "Content-Encoding", versionField, localField, asOfField} {
		w.Header().Del(field)
	}
	return listProblem(err)
}

func (e *Enforcer) writeTo(to io.Writer, header http.Header, q *listRequest) error {
	now := e.config.Now().UnixMilli()
	if q.top > 0 {
		return e.writeTop(to, header, q, now)
	}
	if !q.zipped {
		return e.writeForm(to, q, now)
	}

	header.Set("Content-Encoding", "gzip")
	zip, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err == nil {
		err = e.writeForm(zip, q, now)
	}
	if err != nil {
		return err
	}

	return zip.Close()
}

func (e *Enforcer) writeForm(to io.Writer, q *listRequest, now int64) error {
	if q.form == blocklist.ContentBinary {
		return e.delta.write(to, e.config.Set, q.after, now, q.most)
	}
	return e.config.Set.WriteJSONSome(to, q.after, now, q.most, q.wanted())
}

// writeTop writes the worst entries first, and in a header how many it left out.
func (e *Enforcer) writeTop(to io.Writer, header http.Header, q *listRequest, now int64) error {
	state := e.config.Set.State()
	kept, left := worst(e.config.Set, q, now, e.turns)
	header.Set(cutField, strconv.Itoa(left))
	w := blocklist.NewJSONWriter(to, blocklist.Header{Version: state.Version, After: -1, AsOf: state.AsOf, Snapshot: true})
	for _, entry := range kept {
		if err := w.Entry(entry); err != nil {
			return err
		}
	}
	return w.Close()
}

// worst returns the entries that top keeps, and the number of the others.
func worst(set *blocklist.Set, q *listRequest, now int64, t turns) (kept []*blocklist.Entry, left int) {
	wanted := q.wanted()
	first := best[*blocklist.Entry]{most: q.top, compare: func(a, b *blocklist.Entry) int { return badness(b, a) }}
	looked := 0
	for entry := range set.All(now) {
		// A search reads the entire list, so it lets others work in between.
		if looked++; looked%entriesATurn == 0 {
			t.pass()
		}
		if entry.Mode == blocklist.Shadow || wanted != nil && !wanted(entry) {
			continue
		}

		first.add(entry)
	}

	return first.sorted()
}

// badness is below 0 when a is less bad than b: manual entries are worst, then by level, by how far the limit was
// exceeded, by how long the block lasts.
func badness(a, b *blocklist.Entry) int {
	return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Count, b.Count), cmp.Compare(a.Until, b.Until))
}

func listProblem(err error) error {
	switch {
	case errors.Is(err, blocklist.ErrNoList):
		return problemf(http.StatusServiceUnavailable, "%s", err)
	case errors.Is(err, blocklist.ErrNotYet):
		return problemf(http.StatusTooEarly, "%s", err)
	}
	return err
}

// A patientWriter writes an answer with a deadline for each piece, and notes that it has begun. It gives up the
// caller's turn meanwhile.
type patientWriter struct {
	to    http.ResponseWriter
	turns turns
	begun bool
}

// Write writes with a deadline.
func (p *patientWriter) Write(b []byte) (int, error) {
	p.begun = true
	p.turns.release()
	defer p.turns.acquire()
	return limited.Answer(p.to).Write(b)
}
