package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
	"weir/internal/topic"
)

// A write is what is written at once. It is used again after it was done.
type write struct {
	calls    []call
	messages []queued
	now      int64
	places   map[*partition]*place
	order    []*place
	spare    []*place
	results  []result
	size     int
	synced   bool            // it has to be
	number   uint64          // counts the writes, also those that failed
	stored   []byte          // how it was written, unless it was synced
	latest   map[string]last // of the keys of this write, in compacted topics; by topic, partition and key
}

// A result is the offset of a message, or why it is refused.
type result struct {
	offset int64
	err    error
}

// A place is where a write goes on in a partition.
type place struct {
	of       *partition
	extent   extent
	latest   int64
	records  []topic.Record
	replaced []int64 // offsets of records that this write deletes
}

// begin prepares a write, which is synced if it has to be or one of its calls does. Only these copies of the caller's
// slices are used from now on.
func (w *write) begin(calls []call, messages []queued, now time.Time, synced bool, number uint64) {
	w.calls = append(w.calls[:0], calls...)
	w.messages = append(w.messages[:0], messages...)
	w.now = now.UnixMilli()
	w.size, w.stored, w.number = 0, nil, number
	w.synced = synced || slices.ContainsFunc(calls, func(c call) bool { return c.extra == nil || !c.extra.unsynced })
	w.results = w.results[:0]
}

// forget drops the references to what was written.
func (w *write) forget() {
	for _, one := range w.order {
		clear(one.records)
		one.of, one.records, one.replaced = nil, one.records[:0], one.replaced[:0]
		w.spare = append(w.spare, one)
	}
	clear(w.order)
	w.order = w.order[:0]
	clear(w.places)
	clear(w.latest)
	clear(w.calls)
	clear(w.messages)
}

// do writes.
func (w *write) do(db *pebble.DB) error {
	size := 64
	for i := range w.messages {
		size += 2*(prefixBytes+8+32) + recordSize(&w.messages[i].Message) + len(w.messages[i].Key) // a compacted topic's has its key twice
	}
	for i := range w.calls {
		if e := w.calls[i].extra; e != nil {
			size += w.calls[i].bytes + topic.MaxMetadata
		}
	}

	// It is not closed: readers use its bytes.
	batch := db.NewBatchWithSize(size)
	if err := w.encode(db, batch); err != nil {
		return err
	}
	w.size = size
	if batch.Empty() {
		w.synced = false
		return nil
	}
	if err := batch.Set(numberKey, binary.BigEndian.AppendUint64(nil, w.number), nil); err != nil {
		return err
	}
	if w.synced {
		return db.Apply(batch, pebble.Sync)
	}
	w.stored = batch.Repr()
	return db.Apply(batch, pebble.NoSync)
}

// An unsyncedWrite is one that the database may lose.
type unsyncedWrite struct {
	number uint64
	stored []byte
}

// again writes once more what the database has lost of these: all behind its last write. That one may be of a call that
// failed, and so not be among them; earlier ones over it would bring back what it has replaced.
func again(db *pebble.DB, unsynced []unsyncedWrite) error {
	there, err := lastNumber(db)
	if err != nil {
		return err
	}
	for _, one := range unsynced {
		if one.number <= there {
			continue
		}
		batch := db.NewBatch()
		stored := bytes.Clone(one.stored) // others may read the records in it
		clear(stored[:8])                 // pebble's number of its former place; with it, a large batch ends in a panic
		err := batch.SetRepr(stored)
		if err == nil {
			err = db.Apply(batch, pebble.Sync)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *write) encode(db *pebble.DB, batch *pebble.Batch) error {
	at := 0
	for _, c := range w.calls {
		for range c.messages {
			offset, err := w.add(db, batch, &w.messages[at])
			if err != nil && !errors.Is(err, topic.ErrPermanent) && err != errAnswered {
				return err
			}
			w.results = append(w.results, result{offset, err})
			at++
		}
		if c.extra != nil {
			if err := c.extra.encode(batch); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *extra) encode(batch *pebble.Batch) error {
	if e.commit != nil {
		return e.commit.encode(batch)
	}
	for _, n := range e.notes {
		key := append([]byte{ours, aNote}, n.Key...)
		if n.Value == nil {
			if err := batch.Delete(key, nil); err != nil {
				return err
			}
			continue
		}
		if err := batch.Set(key, n.Value, nil); err != nil {
			return err
		}
	}
	return nil
}

// add adds a message. An error that is permanent or errAnswered is the message's own.
func (w *write) add(db *pebble.DB, batch *pebble.Batch, m *queued) (int64, error) {
	p := m.by.of.partitions[m.Partition]
	switch {
	case m.answered:
		return -1, errAnswered
	case len(m.Key)+len(m.Value) > maxRecord:
		return -1, topic.Errorf(topic.ErrTooLarge, "a record of %d bytes; at most %d are allowed", len(m.Key)+len(m.Value), maxRecord)
	case p.of.compact && m.Key == nil:
		return -1, topic.Errorf(topic.ErrInvalid, "a record without a key, in a topic that keeps the last record of each")
	case p.of.compact && len(m.Key) > maxKey:
		return -1, topic.Errorf(topic.ErrTooLarge, "a key of %d bytes; at most %d are allowed in a compacted topic", len(m.Key), maxKey)
	}

	at := w.place(p)
	offset := at.extent.end
	if p.of.compact {
		if err := w.replace(db, batch, at, m, offset); err != nil {
			return -1, err
		}
	}
	at.put(batch, m, max(w.now, at.latest))
	return offset, nil
}

// errAnswered leaves a message out whose appender waits no more.
var errAnswered = errors.New("it was answered before")

// place returns where a partition goes on.
func (w *write) place(p *partition) *place {
	if at := w.places[p]; at != nil {
		return at
	}

	at := &place{}
	if n := len(w.spare); n > 0 {
		at, w.spare = w.spare[n-1], w.spare[:n-1]
	}
	p.mu.Lock()
	at.of, at.extent, at.latest = p, p.extent, p.latest
	p.mu.Unlock()
	w.places[p] = at
	w.order = append(w.order, at)
	return at
}

// put encodes a record at the end of the partition.
func (at *place) put(batch *pebble.Batch, m *queued, now int64) {
	p := at.of
	h := head{at: now, total: at.extent.total + int64(len(m.Key)+len(m.Value))}
	var begin [1 + 3*10]byte
	first := appendHead(begin[:0], &m.Message, h)

	op := batch.SetDeferred(prefixBytes+8, len(first)+len(m.Key)+len(m.Value))
	appendOffset(appendPrefix(op.Key[:0], aRecord, p.of.Number, p.number), at.extent.end)
	value := append(append(append(op.Value[:0], first...), m.Key...), m.Value...)
	_ = op.Finish() // an error only of batches with an index

	r := topic.Record{Offset: at.extent.end, Time: time.UnixMilli(now)}
	if m.Key != nil {
		r.Key = value[len(first) : len(first)+len(m.Key) : len(first)+len(m.Key)]
	}
	if m.Value != nil {
		r.Value = value[len(first)+len(m.Key) : len(value) : len(value)]
	}
	at.records = append(at.records, r)
	at.extent.end++
	at.extent.total, at.latest = h.total, now
}

// replace deletes the record that a key had until now, and notes the new one.
func (w *write) replace(db *pebble.DB, batch *pebble.Batch, at *place, m *queued, offset int64) error {
	p := at.of
	key := append(appendPrefix(make([]byte, 0, prefixBytes+len(m.Key)), aLast, p.of.Number, p.number), m.Key...)
	before, found := w.latest[string(key)]
	if !found {
		stored, err := database.Get(db, key)
		if err != nil {
			return err
		}
		if found = stored != nil; found {
			if before, err = readLast(stored); err != nil {
				return err
			}
		}
	}

	if found {
		if err := before.delete(batch, p); err != nil {
			return err
		}
		at.replaced = append(at.replaced, before.offset)
	}

	next := last{offset: offset, ends: m.Value == nil}
	if next.ends {
		if err := batch.Set(appendOffset(appendPrefix(nil, anEnd, p.of.Number, p.number), offset), m.Key, nil); err != nil {
			return err
		}
	}
	if w.latest == nil {
		w.latest = map[string]last{}
	}
	w.latest[string(key)] = next
	return batch.Set(key, next.bytes(), nil)
}

// delete deletes a record of a compacted topic.
func (l last) delete(batch *pebble.Batch, p *partition) error {
	if l.ends {
		if err := batch.Delete(appendOffset(appendPrefix(nil, anEnd, p.of.Number, p.number), l.offset), nil); err != nil {
			return err
		}
	}
	return batch.Delete(p.key(l.offset), nil)
}
