package objects

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"weir/pkg/collector/ordered"
)

// movedAway is in the place of the ETag's hash for an object that was being written, and is not in the path any more.
const movedAway = 0

const (
	entryBytes  = 48
	recordMost  = 64      // entries in a record
	knownMost   = 1 << 20 // objects in memory
	frontierKey = 0       // the number of the frontier's value; records follow
)

func hashOf(text string) uint64 { return xxhash.Sum64String(text) }

// An entry is an object that was read to its end, or that cannot be read.
type entry struct {
	key, etag uint64 // hashes; for one that cannot be read, missedHash
	modified  int64  // Unix seconds; with a queue, when it was read
	end       int64  // the position of its end
	bytes     int64  // unpacked
	chain     uint64 // the hash of its lines

	record int  // which has it
	listed bool // by the present listing
	empty  bool // there
}

// byBytes reports whether the number of bytes alone says what was read. The object is plain text then.
func (e *entry) byBytes() bool { return e.bytes > 0 && e.chain == 0 }

// open reports whether the object was being written when it was read. It is not forgotten as long as it is.
func (e *entry) open() bool { return e.etag == openMark }

func (e *entry) append(b []byte) []byte {
	for _, n := range []uint64{e.key, e.etag, uint64(e.modified), uint64(e.end), uint64(e.bytes), e.chain} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func readEntry(b []byte) *entry {
	n := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	return &entry{key: n(0), etag: n(1), modified: int64(n(2)), end: int64(n(3)), bytes: int64(n(4)), chain: n(5)}
}

// A frontier divides the objects that are forgotten from the others.
type frontier struct {
	At   int64           `json:"at"`             // Unix seconds: objects of then and before are not read
	Days map[int64]int64 `json:"days,omitempty"` // how many of them there are, by day
}

const secondsADay = 86_400

// known are the objects that were read, and not forgotten.
type known struct {
	memory   *ordered.Memory
	byKey    map[uint64]*entry
	records  map[int][]*entry
	last     int            // the record that is being filled
	next     int            // a record that is not used
	written  map[uint64]int // records of objects that are being written, by hashes of their keys: each has one of its own
	dirty    map[int]bool   // records that differ from the journal's
	added    int            // objects since they were written
	frontier frontier
}

// load reads what the journal has. Objects whose end is after the position were read, and the journal does not have it:
// they are read again.
func (k *known) load(ctx context.Context, m *ordered.Memory, position, since int64) error {
	*k = known{memory: m, byKey: map[uint64]*entry{}, records: map[int][]*entry{}, written: map[uint64]int{}, dirty: map[int]bool{}, frontier: frontier{At: since}}
	values := m.Values()
	if text, ok := values[frontierKey]; ok {
		if err := json.Unmarshal(text, &k.frontier); err != nil {
			return fmt.Errorf("the journal's frontier cannot be read: %w", err)
		}
		delete(values, frontierKey)
	} else if since > 0 {
		if err := k.keepFrontier(ctx); err != nil {
			return err
		}
	}

	k.last = frontierKey + 1
	for _, number := range slices.Sorted(keysOf(values)) {
		value, changed := values[number], false
		k.next = number + 1
		for ; len(value) >= entryBytes; value = value[entryBytes:] {
			switch e := readEntry(value); {
			case e.end > position:
				changed = true
			case e.open():
				k.putOpen(e, number)
			case e.modified > k.frontier.At:
				k.last = number
				k.put(e, number)
			}
		}
		switch {
		case len(k.records[number]) == 0:
			m.Forget(number)
		case changed:
			k.dirty[number] = true
		}
	}
	k.next = max(k.next, k.last+1)
	return k.write(ctx)
}

func keysOf(m map[int][]byte) func(func(int) bool) {
	return func(yield func(int) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

func (k *known) put(e *entry, record int) {
	e.record = record
	if was := k.byKey[e.key]; was == nil || was.end <= e.end {
		k.byKey[e.key] = e
	}
	k.records[record] = append(k.records[record], e)
}

// putOpen puts an object that the journal has as one that is being written. It may have moved away since.
func (k *known) putOpen(e *entry, record int) {
	was := k.byKey[e.key]
	k.written[e.key] = record
	k.put(e, record)
	if was != nil && was.end == e.end && was.etag == movedAway {
		k.byKey[e.key] = was
	}
}

// find returns the object with a key and an ETag, if it was read.
func (k *known) find(key, etag string) *entry {
	if e := k.byKey[hashOf(key)]; e != nil && e.etag == hashOf(etag) {
		return e
	}
	return nil
}

// add adds an object. The journal has it after write.
func (k *known) add(e *entry) error {
	if len(k.byKey) >= knownMost {
		return errors.New("more than 1,048,576 objects came within the delay; give the source a shorter one")
	}
	if len(k.records[k.last]) >= recordMost {
		k.last = k.take()
	}
	record := k.last
	if e.open() {
		if _, ok := k.written[e.key]; !ok {
			k.written[e.key] = k.take()
		}
		record = k.written[e.key]
	}
	k.put(e, record)
	k.dirty[record] = true
	k.added++
	return nil
}

func (k *known) take() int {
	k.next++
	return k.next - 1
}

// prune leaves out what was read before of objects that are being written, or were. The journal has what was read since
// first. sent is the position up to which nothing is read again.
func (k *known) prune(ctx context.Context, sent int64) error {
	if err := k.write(ctx); err != nil {
		return err
	}
	for key, record := range k.written {
		entries := k.records[record]
		for len(entries) > 1 && entries[1].end <= sent {
			entries = entries[1:]
		}
		k.records[record] = entries
		if now := k.byKey[key]; now == nil || !now.open() && now.end <= sent {
			delete(k.written, key)
			delete(k.records, record)
			delete(k.dirty, record)
			k.memory.Forget(record)
		}
	}
	return nil
}

// unwritten is how many objects were added since write.
func (k *known) unwritten() int { return k.added }

// write writes what changed. It returns when the journal has it.
func (k *known) write(ctx context.Context) error {
	for record := range k.dirty {
		var value []byte
		for _, e := range k.records[record] {
			value = e.append(value)
		}
		if err := k.memory.Keep(ctx, record, value); err != nil {
			return err
		}
	}
	clear(k.dirty)
	k.added = 0
	return nil
}

func (k *known) keepFrontier(ctx context.Context) error {
	text, _ := json.Marshal(k.frontier) // it is made of numbers
	return k.memory.Keep(ctx, frontierKey, text)
}

// hasOlder reports whether an object is of a Unix second or before.
func (k *known) hasOlder(at int64) bool {
	for _, e := range k.byKey {
		if e.modified <= at {
			return true
		}
	}
	return false
}

// forget removes the objects of the frontier's time and before, and returns those that had moved away. The journal has the
// frontier first. sent is the position up to which nothing is read again: until then, what was read before of an object is
// needed too.
func (k *known) forget(sent int64) (moved []*entry) {
	for key, e := range k.byKey {
		if e.modified > k.frontier.At || e.open() {
			continue
		}
		if e.etag == movedAway {
			moved = append(moved, e)
		}
		delete(k.byKey, key)
	}
	for number, entries := range k.records {
		gone := func(e *entry) bool {
			now := k.byKey[e.key]
			return now == nil || now != e && now.end <= sent
		}
		if number != k.last && !k.isWritten(number, entries) && !slices.ContainsFunc(entries, func(e *entry) bool { return !gone(e) }) {
			delete(k.records, number)
			k.memory.Forget(number)
		}
	}
	return moved
}

// isWritten reports whether a record is that of an object that is being written.
func (k *known) isWritten(number int, entries []*entry) bool {
	if len(entries) == 0 {
		return false
	}
	record, ok := k.written[entries[0].key]
	return ok && record == number
}
