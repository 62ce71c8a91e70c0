package crash

import (
	"context"
	"encoding/json"
	"time"

	"weir/internal/topic"
	stored "weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
)

// truth makes the truth of the log as it is now.
func (r *river) truth() *truth {
	r.t.Helper()
	w := newTruth(mustParse(r.t, r.rules), r.partitions, 10*time.Minute, 10*time.Second)
	for i := range w.keysOf {
		w.keysOf[i] = *stored.NewGuard(r.guardSeed)
	}
	r.tell(w)
	return w
}

// tell adds all records of the log to a truth.
func (r *river) tell(w *truth) {
	r.t.Helper()
	r.readAll("hits", func(partition int, record topic.Record) error {
		return w.record(partition, record.Offset, record.Value)
	})
}

// readAll reads a topic up to its end.
func (r *river) readAll(name string, each func(partition int, record topic.Record) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), r.patience)
	defer cancel()
	var spans []topic.Span
	r.eventually("the topic can be read", func() (err error) {
		spans, err = r.client.Offsets(ctx, r.prefix+name)
		return err
	})
	for p, span := range spans {
		for reader := r.client.Reader(r.prefix+name, p, span.Start, 0); reader.Next() < span.End; {
			records, err := reader.Fetch(ctx)
			if err != nil && ctx.Err() != nil {
				r.t.Fatal(err)
			}
			for _, record := range records {
				if err := each(p, record); err != nil {
					r.t.Fatalf("%s, partition %d, record %d: %v", name, p, record.Offset, err)
				}
			}
		}
	}
}

// A list is the content of the topic blocklist.
type list struct {
	ever map[string]*blocklist.Entry // the last record of each id
	now  map[pair]*blocklist.Entry   // the current entries for readers: of a key's records the one that was decided last
}

func (r *river) list() list {
	r.t.Helper()
	l := list{ever: map[string]*blocklist.Entry{}, now: map[pair]*blocklist.Entry{}}
	r.readAll("blocklist", func(_ int, record topic.Record) error {
		found, err := blocklist.DecodeRecord(record.Key, record.Value)
		if found.Entry != nil {
			l.add(found.Entry)
		}
		return err
	})
	return l
}

func (l list) add(e *blocklist.Entry) {
	if last := l.ever[e.ID]; last == nil || !before(e, last) {
		l.ever[e.ID] = e
	}
	of := pair{e.Rule, e.Key}
	if last := l.now[of]; last == nil || !before(e, last) {
		l.now[of] = e
	}
}

// before reports whether a was decided before b.
func before(a, b *blocklist.Entry) bool {
	return a.Generation < b.Generation || a.Generation == b.Generation && a.Offset < b.Offset
}

// compareList compares all records that were ever written to the blocklist with the truth. A block that was over before
// the test began must not be there, one that still lasts must be, and one that ended meanwhile may be.
func (r *river) compareList(w *truth, begun time.Time) {
	r.t.Helper()
	l, over := r.list(), time.Now().UnixMilli()
	missing, due := 0, 0
	for id, v := range w.verdicts {
		e := l.ever[id]
		if v.replaced && e == nil {
			continue
		}
		if v.Until > over {
			due++
		}
		switch {
		case e != nil:
			r.compareEntry(w, v, e)
		case v.Until > over:
			if missing++; missing <= 10 {
				r.t.Errorf("not on the list: %+v", *v)
			}
		}
	}
	for id, e := range l.ever {
		if v := w.verdicts[id]; v == nil {
			r.t.Errorf("on the list, and nobody broke that limit: %+v", *e)
		} else if v.Until <= begun.UnixMilli() && !v.moved {
			r.t.Errorf("on the list, though it was over: %+v", *e)
		}
	}
	if missing > 0 {
		r.t.Errorf("%d of %d verdicts that are due are not on the list", missing, due)
	}
	r.t.Logf("%d entries were published, %d are due", len(l.ever), due)
	r.compareNow(w, l, over)
}

func (r *river) compareEntry(w *truth, v *verdict, e *blocklist.Entry) {
	r.t.Helper()
	if v.moved && w.keys[pair{v.Rule, v.Key}].entry != v {
		return // another one stands in its place
	}
	until := v.Until == e.Until || e.Until <= time.Now().UnixMilli() // the hit that moved the end may have come after the old end
	if !until || v.Rule != e.Rule || v.Key != e.Key || v.From != e.From || v.Limit != e.Limit || v.Count != e.Count || v.Level != e.Level || v.Mode != e.Mode ||
		v.Guarded != e.Guarded || v.ByShare != e.ByShare {
		r.t.Errorf("the list has %+v, want %+v", *e, v.Entry)
	}
}

// compareNow compares the readers' entries with the truth: every block that lasts is there, unless it was lifted.
func (r *river) compareNow(w *truth, l list, over int64) {
	r.t.Helper()
	wrong := 0
	for of, e := range l.now {
		h := w.keys[of]
		blocked := h != nil && h.lasts(over)
		listed := e.Ended == 0 && e.Until > over
		if (blocked != listed || blocked && h.entry.ID != e.ID) && wrong < 10 {
			wrong++
			r.t.Errorf("%v: blocked is %v, and the list says %+v", of, blocked, *e)
		}
	}
	for of, h := range w.keys {
		if h.lasts(over) && l.now[of] == nil && wrong < 20 {
			wrong++
			r.t.Errorf("%v is blocked, and not on the list: %+v", of, *h.entry)
		}
	}
}

// An event is a line of the topic events.
type event struct {
	Event, ID, Rule, Key string
}

func (r *river) events() []event {
	r.t.Helper()
	var all []event
	r.readAll("events", func(_ int, record topic.Record) error {
		var e event
		err := json.Unmarshal(record.Value, &e)
		all = append(all, e)
		return err
	})
	return all
}

// compareEvents checks that each block that lasts has an event of its beginning, and that all events are of blocks.
func (r *river) compareEvents(w *truth, over int64) {
	r.t.Helper()
	blocked := map[string]bool{}
	for _, e := range r.events() {
		blocked[e.ID] = blocked[e.ID] || e.Event == "blocked"
		if w.verdicts[e.ID] == nil {
			r.t.Errorf("an event of what never was: %+v", e)
		}
	}
	for id, v := range w.verdicts {
		if v.Until > over && !v.lifted && !blocked[id] {
			r.t.Errorf("there is no event of %+v", *v)
		}
	}
}
