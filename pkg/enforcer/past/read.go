package past

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
)

// A Page is an answer: events, the newest first.
type Page struct {
	Events []json.RawMessage `json:"events"`
	// Next is the Query.After of the next page; empty after the last. A page that would have taken too long has fewer
	// events than there are, even none, and a Next.
	Next string `json:"next,omitempty"`
	// AsOf is when the index had all events of the topic, Oldest the time of the oldest event that it has, and Behind how
	// many records of the topic it does not have yet.
	AsOf   *time.Time `json:"as_of"`
	Oldest *time.Time `json:"oldest"`
	Behind int64      `json:"behind"`
}

// A reader answers one query from a snapshot.
type reader struct {
	db    pebble.Reader
	query *Query
	kinds *kinds
	most  int // events
	until time.Time
	looks int

	found []json.RawMessage
	last  place // of the last event that was looked at
	more  bool  // there are further events, or may be
}

// search answers a query.
func search(ctx context.Context, db *pebble.DB, q *Query, k *kinds, patience time.Duration) (r *reader, err error) {
	snapshot := db.NewSnapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	r = &reader{db: withContext{snapshot, ctx}, query: q, kinds: k, most: q.Limit, until: time.Now().Add(patience), found: []json.RawMessage{}}
	first, err := q.first()
	if err != nil {
		return nil, err
	}
	r.last = first
	if q.At != 0 {
		return r, r.active(first)
	}
	return r, r.history(first)
}

// withContext is a reader whose iterators end with a context.
type withContext struct {
	*pebble.Snapshot
	ctx context.Context
}

func (w withContext) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	return w.Snapshot.NewIterWithContext(w.ctx, o)
}

// late reports whether the answer takes too long. It looks at the clock now and then.
func (r *reader) late() bool {
	r.looks++
	return r.looks%64 == 0 && time.Now().After(r.until)
}

// history collects events by their places.
func (r *reader) history(first place) error {
	lists, err := r.lists()
	if err != nil {
		return err
	}
	candidates, err := newMerge(r.db, lists, first)
	if err != nil {
		return err
	}
	wanted := r.wantedKinds()
	for candidates.next() {
		p, kind, value := candidates.at()
		switch {
		case p.at < r.query.Since:
			return candidates.close()
		case len(r.found) == r.most:
			r.more = true
			return candidates.close()
		}
		if isWanted(wanted, kind) {
			if err := r.look(p, value); err != nil {
				return errors.Join(err, candidates.close())
			}
		}
		if r.last = p; r.late() {
			r.more = true
			return candidates.close()
		}
	}
	return candidates.close()
}

// wantedKinds returns which kinds the query selects; nil for all.
func (r *reader) wantedKinds() []bool {
	if r.query.ofAnyKind() {
		return nil
	}
	wanted := make([]bool, len(r.kinds.all))
	for number, one := range r.kinds.all[1:] {
		wanted[number+1] = r.query.of(one)
	}
	return wanted
}

// isWanted reports whether events of a kind may be wanted. A kind that is newer than the snapshot is looked at.
func isWanted(wanted []bool, kind uint64) bool {
	return wanted == nil || kind == 0 || kind >= uint64(len(wanted)) || wanted[kind]
}

// look adds the event at a place if the query selects it. The value is nil where it has to be read.
func (r *reader) look(p place, value []byte) error {
	if value == nil {
		stored, err := database.Get(r.db, eventKey(p))
		if err != nil {
			return err
		}
		if value = stored; value == nil {
			return fmt.Errorf("%w: a list has an event that is not there", errDamaged)
		}
	}
	h, ok := readHeader(value)
	if !ok {
		return errDamaged
	}
	// A key that does not begin as wanted needs no further look.
	if q := r.query; q.Key != "" && q.key().begins && len(h.key) > 0 && !bytes.HasPrefix(h.key, []byte(q.key().text)) {
		return nil
	}
	e, err := ReadEvent(h.line)
	if err != nil {
		return errors.Join(errDamaged, err)
	}
	if r.query.Matches(e) {
		r.found = append(r.found, bytes.Clone(h.line))
	}
	return nil
}
