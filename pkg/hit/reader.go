package hit

import (
	"fmt"
	"math"
)

// A Reader reads batches, one after another, and is used again for each. The zero value is ready for Reset.
//
//	err := r.Reset(record)
//	for _, item := range r.Items() {
//		pair := r.Pairs()[item.Pair]
//		rule := r.Rules()[pair.Rule]
//		…
//	}
type Reader struct {
	header   Header
	checksum uint64
	rules    []string
	of       []uint64 // by rule, in version 2
	pairs    []Pair
	texts    []byte // of the keys that are packed
	items    []Item
	ids      [][]byte // of the commands
	values   []uint64 // of the hits that have some
}

// Reset reads a batch, all of it or nothing. Its errors are [ErrNewer] and [ErrDamaged]; after one the Reader
// is empty. The record must not change before the next Reset.
func (r *Reader) Reset(record []byte) error {
	if err := r.read(record); err != nil {
		*r = Reader{}
		return fmt.Errorf("reading a batch of %d bytes: %w", len(record), err)
	}
	return nil
}

func (r *Reader) read(record []byte) error {
	body, err := unseal(record, VersionValues)
	if err != nil {
		return err
	}
	if len(record) > MaxBytes {
		return fmt.Errorf("%w: at most %d bytes are possible", ErrDamaged, MaxBytes)
	}

	r.checksum = Checksum(record)
	c := newCursor(body)

	// The four parts stand in the bytes in this order. Each one stops at the first failure of the cursor, so one check
	// at the end is enough.
	r.readHeader(&c)
	r.readRules(&c, record[0])
	r.readPairs(&c)
	r.readItems(&c)
	if c.Failed {
		return fmt.Errorf("%w: the checksum holds, but there is what no version writes", ErrDamaged)
	}

	return nil
}

func (r *Reader) readHeader(c *cursor) {
	h := &r.header
	h.Part, h.More = c.part()
	h.Source = again(h.Source, c.Text(MaxText))
	h.From, h.To = c.fromTo()
	h.Clock = c.Signed()
	h.Fingerprint = again(h.Fingerprint, c.Text(MaxText))
}

func (c *cursor) part() (part int, more bool) {
	n := c.AtMost(maxPart<<1 | 1)
	return int(n >> 1), n&1 == 1
}

func (c *cursor) fromTo() (from, to int64) {
	from = c.AtMost(math.MaxInt64 - 1)
	length := c.AtMost(math.MaxInt64 - from)
	if length == 0 {
		c.Fail()
	}
	return from, from + length
}

// again returns the text as a string: the one there was where they are equal.
func again(was string, text []byte) string {
	if was == string(text) {
		return was
	}
	return string(text)
}

func (r *Reader) readRules(c *cursor, version byte) {
	known := r.rules
	r.rules, r.of = r.rules[:0], r.of[:0]
	for range c.AtMost(MaxBytes) {
		name := c.text()
		if version == VersionValues {
			r.of = append(r.of, c.word())
		}
		if c.Failed {
			return
		}
		if n := len(r.rules); n < len(known) {
			r.rules = append(r.rules, again(known[n], name))
			continue
		}
		r.rules = append(r.rules, string(name))
	}
}

func (r *Reader) readPairs(c *cursor) {
	r.pairs, r.texts = r.pairs[:0], r.texts[:0]
	for range c.AtMost(MaxBytes) {
		head := c.Unsigned()
		rule := head >> formBits
		if c.Failed || rule >= uint64(len(r.rules)) {
			c.Fail()
			return
		}
		var key []byte
		key, r.texts = c.key(head&(1<<formBits-1), r.texts)
		r.pairs = append(r.pairs, Pair{int(rule), key})
	}
}

// readItems reads all to the end.
func (r *Reader) readItems(c *cursor) {
	r.items, r.ids, r.values = r.items[:0], r.ids[:0], r.values[:0]
	if len(r.pairs) == 0 {
		c.End()
		return
	}

	// Times are differences to the item before; the first is one to the clock.
	occurred, last := 0, r.header.Clock+c.Signed()
	for len(c.Left) > 0 {
		head := c.Unsigned()
		switch head & timeBits {
		case timeSame:
		case timeMillis:
			last += c.Signed()
		case timeSeconds:
			last += c.Signed() * 1000
		default:
			c.Fail()
		}

		item := Item{UnixMilli: last, Cost: 1}
		if head&(costFollows|commandFollows) != 0 {
			r.readRare(c, head, &item)
		}

		// A distance beyond the first pair wraps around, and fails below as a number that no pair has.
		pair := uint64(occurred) - head>>pairShift
		if head>>pairShift == 0 {
			occurred++
		}
		if pair >= uint64(len(r.pairs)) {
			c.Fail()
			return
		}
		if item.Cost > 0 && r.Of(r.pairs[pair].Rule) != 0 {
			item.rest = int32(len(r.values))
			r.values = append(r.values, c.word())
		}

		item.Pair = int32(pair)
		r.items = append(r.items, item)
	}

	// No Writer lists a pair that has no item.
	if occurred != len(r.pairs) {
		c.Fail()
	}
}

// readRare reads a cost, or a command.
func (r *Reader) readRare(c *cursor, head uint64, item *Item) {
	if head&commandFollows == 0 {
		item.Cost = c.Number()
		if item.Cost == 0 {
			c.Fail()
		}
		return
	}
	item.Cost, item.rest = 0, int32(len(r.ids))
	if head&costFollows != 0 || c.Byte() != unblock {
		c.Fail()
	}
	r.ids = append(r.ids, c.text())
}

// Header returns that of the batch.
func (r *Reader) Header() Header { return r.header }

// Checksum returns that of the batch.
func (r *Reader) Checksum() uint64 { return r.checksum }

// Rules returns the names of the rules that occur in the batch, valid until Reset.
func (r *Reader) Rules() []string { return r.rules }

// Pairs returns the pairs that occur in the batch, each once, valid until Reset.
func (r *Reader) Pairs() []Pair { return r.pairs }

// Of returns what the values of a rule's hits are of, 0 where they have none.
func (r *Reader) Of(rule int) uint64 {
	if rule >= len(r.of) {
		return 0
	}
	return r.of[rule]
}

// Value returns the value of a hit; 0 of one that has none.
func (r *Reader) Value(item Item) uint64 {
	if item.Cost == 0 || r.Of(r.pairs[item.Pair].Rule) == 0 {
		return 0
	}
	return r.values[item.rest]
}

// Items returns the hits and commands of the batch in their order, valid until Reset.
func (r *Reader) Items() []Item { return r.items }

// Unblock returns whether an item is the command to forget the window and the level of its pair, and the
// command's id, valid until Reset.
func (r *Reader) Unblock(item Item) (id []byte, ok bool) {
	if item.Cost != 0 {
		return nil, false
	}
	return r.ids[item.rest], true
}
