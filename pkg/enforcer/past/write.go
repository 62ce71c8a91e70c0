package past

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
)

// A progress is how far the partitions of the topic are in the index.
type progress struct {
	Topic string         `json:"topic"` // its identity
	Parts []partProgress `json:"parts"`
	Seq   uint64         `json:"seq"`   // of the next event
	Count int64          `json:"count"` // of events in the index
}

type partProgress struct {
	Next int64 `json:"next"` // offset
	At   int64 `json:"at"`   // of the last event
}

// The keys of spaceMeta.
var (
	layoutKey   = []byte{spaceMeta, 'l'}
	progressKey = []byte{spaceMeta, 'p'}
	kindsBegin  = []byte{spaceMeta, 'k'} // followed by the kind's number
)

// layout is the version of what the package comment describes.
const layout = "2"

// maxKinds bounds the kinds that are distinguished. Events of further ones have the kind 0 and are read to be compared.
const maxKinds = 1 << 16

// kinds are the kinds of all events, by their numbers from 1 on. They are never changed, only replaced.
type kinds struct {
	numbers map[kind]uint64
	all     []kind // by number; the first is not used
}

func (k *kinds) with(one kind) *kinds {
	next := &kinds{maps.Clone(k.numbers), append(k.all[:len(k.all):len(k.all)], one)}
	next.numbers[one] = uint64(len(k.all))
	return next
}

func readKinds(db pebble.Reader) (*kinds, error) {
	k := &kinds{numbers: map[kind]uint64{}, all: make([]kind, 1)}
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: kindsBegin, UpperBound: after(kindsBegin)})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		var texts [4]string
		if err := json.Unmarshal(it.Value(), &texts); err != nil || binary.BigEndian.Uint32(it.Key()[2:]) != uint32(len(k.all)) {
			return nil, errors.Join(errDamaged, err, it.Close())
		}
		one := kind{texts[0], texts[1], texts[2], texts[3]}
		k.numbers[one] = uint64(len(k.all))
		k.all = append(k.all, one)
	}
	return k, errors.Join(it.Error(), it.Close())
}

// after returns the first key behind all those that begin with a prefix whose last byte is not 255.
func after(prefix []byte) []byte {
	end := append([]byte{}, prefix...)
	end[len(end)-1]++
	return end
}

// errDamaged reports a database that has what this package never writes: it is made again.
var errDamaged = errors.New("the index of events is damaged")

// load reads how far an opening of the database is, and clears one of another layout.
func load(db *pebble.DB) (p progress, k *kinds, err error) {
	found, err := database.Get(db, layoutKey)
	if err != nil {
		return p, nil, err
	}
	if string(found) != layout {
		if err := clearAll(db); err != nil {
			return p, nil, err
		}
	}
	text, err := database.Get(db, progressKey)
	if err != nil {
		return p, nil, err
	}
	if text != nil {
		if err := json.Unmarshal(text, &p); err != nil {
			return p, nil, errors.Join(errDamaged, err)
		}
	}
	k, err = readKinds(db)
	return p, k, err
}

// clearAll deletes everything, and writes the layout.
func clearAll(db *pebble.DB) error {
	b := db.NewBatch()
	defer b.Close()
	return errors.Join(b.DeleteRange([]byte{0}, []byte{0xff}, nil), b.Set(layoutKey, []byte(layout), nil), b.Commit(pebble.Sync))
}

// A writer adds events to one batch. It finds added events before the batch is committed.
type writer struct {
	db    *pebble.DB
	batch *pebble.Batch
	kinds *kinds
	units map[string]state
	same  map[string]bool
	progress
}

func newWriter(db *pebble.DB, p progress, k *kinds) *writer {
	p.Parts = append([]partProgress{}, p.Parts...)
	return &writer{db: db, batch: db.NewBatch(), kinds: k, units: map[string]state{}, same: map[string]bool{}, progress: p}
}

// add adds an event, unless it is there.
func (w *writer) add(e *Event) error {
	known, err := w.knows(e)
	if known || err != nil {
		return err
	}

	number, err := w.number(e)
	if err != nil {
		return err
	}
	p := place{e.At, w.Seq}
	w.Seq++
	w.Count++
	short := binary.AppendUvarint(nil, number)
	errs := []error{
		w.batch.Set(eventKey(p), e.stored(number), nil),
		w.batch.Set(sameKey(e), nil, nil),
		w.batch.Set(p.append(kindList(number)), nil, nil),
	}
	for _, list := range e.lists() {
		errs = append(errs, w.batch.Set(p.append(list), short, nil))
	}
	return errors.Join(append(errs, w.change(e, p, number))...)
}

// knows reports whether the event is there, and notes that it is from now on.
func (w *writer) knows(e *Event) (bool, error) {
	same := e.Identity()
	if w.same[same] {
		return true, nil
	}
	w.same[same] = true
	// Most events are the first of their unit. A unit that is not there needs no second look.
	if unit := e.unit(); unit != "" {
		if _, found, err := w.state(unit); !found || err != nil {
			return false, err
		}
	}
	found, err := database.Get(w.db, sameKey(e))
	return found != nil, err
}

func (w *writer) number(e *Event) (uint64, error) {
	of := kindOf(e)
	if number, ok := w.kinds.numbers[of]; ok {
		return number, nil
	}
	if len(w.kinds.all) >= maxKinds || len(of.rule)+len(of.event)+len(of.by) > maxTerm {
		return 0, nil
	}
	w.kinds = w.kinds.with(of)
	number := w.kinds.numbers[of]
	text, err := json.Marshal([4]string{of.rule, of.event, of.order, of.by})
	if err != nil {
		return 0, err
	}
	return number, w.batch.Set(binary.BigEndian.AppendUint32(append([]byte{}, kindsBegin...), uint32(number)), text, nil)
}

func (w *writer) state(unit string) (s state, found bool, err error) {
	if s, found = w.units[unit]; found {
		return s, true, nil
	}
	value, err := database.Get(w.db, unitKey(unit))
	if value == nil || err != nil {
		return s, false, err
	}
	if s, found = readState(value); !found {
		return s, false, errDamaged
	}
	return s, true, nil
}

// change ends the span of the unit's last event, and begins that of this one.
func (w *writer) change(e *Event, p place, kind uint64) error {
	unit := e.unit()
	if unit == "" {
		return nil
	}
	last, found, err := w.state(unit)
	if err != nil {
		return err
	}
	start := e.At
	if found {
		start = max(start, last.start) // clocks differ: the topic's order counts
		if err := w.cut(last, start); err != nil {
			return err
		}
	}

	next := state{p, e.span(start), kind}
	w.units[unit] = next
	errs := []error{w.batch.Set(unitKey(unit), next.bytes(), nil)}
	if start != e.At {
		errs = append(errs, w.batch.Set(cutKey(p.seq), next.span.bytes(), nil))
	}
	return errors.Join(append(errs, w.setSpan(next))...)
}

// cut ends the span of a state at a time.
func (w *writer) cut(last state, at int64) error {
	if last.end <= at {
		return nil
	}
	errs := []error{w.deleteSpan(last.span, last.at)}
	last.end = at
	return errors.Join(append(errs, w.batch.Set(cutKey(last.at.seq), last.span.bytes(), nil), w.setSpan(last))...)
}

func (w *writer) setSpan(s state) error {
	if s.end <= s.start {
		return nil
	}
	short := binary.AppendUvarint(nil, s.kind)
	keys := s.keys(s.at)
	return errors.Join(w.batch.Set(keys[0], short, nil), w.batch.Set(keys[1], short, nil))
}

func (w *writer) deleteSpan(s span, p place) error {
	if s.end <= s.start {
		return nil
	}
	keys := s.keys(p)
	return errors.Join(w.batch.Delete(keys[0], nil), w.batch.Delete(keys[1], nil))
}

// commit writes the batch with how far it leads.
func (w *writer) commit() error {
	defer w.batch.Close()
	text, err := json.Marshal(w.progress)
	if err != nil {
		return fmt.Errorf("writing how far the events are indexed: %w", err)
	}
	return errors.Join(w.batch.Set(progressKey, text, nil), w.batch.Commit(pebble.NoSync))
}

// trim deletes events before a time, the oldest first and at most so many, and returns how many there were.
func (w *writer) trim(ctx context.Context, before int64, most int) (deleted int, err error) {
	it, err := w.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{spaceEvent}, UpperBound: eventKey(place{at: before})})
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok && deleted < most && err == nil; ok = it.Next() {
		p, placed := placeOf(it.Key())
		h, read := readHeader(it.Value())
		if !placed || !read {
			err = errDamaged
			break
		}
		err = w.remove(p, h)
		deleted++
	}
	if err = errors.Join(err, it.Error(), it.Close()); err != nil {
		return 0, err
	}
	w.Count -= int64(deleted)
	return deleted, nil
}

// remove deletes an event with everything that it has in the index.
func (w *writer) remove(p place, h header) error {
	e, err := ReadEvent(h.line)
	if err != nil {
		return errors.Join(errDamaged, err)
	}
	errs := []error{w.batch.Delete(eventKey(p), nil), w.batch.Delete(sameKey(e), nil), w.batch.Delete(p.append(kindList(h.kind)), nil)}
	for _, list := range e.lists() {
		errs = append(errs, w.batch.Delete(p.append(list), nil))
	}
	unit := e.unit()
	if unit == "" {
		return errors.Join(errs...)
	}

	last, found, err := w.state(unit)
	if found && last.at == p {
		delete(w.units, unit)
		errs = append(errs, w.batch.Delete(unitKey(unit), nil))
	}
	is := e.span(e.At)
	text, err2 := database.Get(w.db, cutKey(p.seq))
	if text != nil {
		if is, found = readSpan(text); !found {
			errs = append(errs, errDamaged)
		}
		errs = append(errs, w.batch.Delete(cutKey(p.seq), nil))
	}
	return errors.Join(append(errs, err, err2, w.deleteSpan(is, p))...)
}
