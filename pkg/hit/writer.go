package hit

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// The bits of an item's head.
const (
	timeSame    = 0
	timeMillis  = 1
	timeSeconds = 2

	timeBits       = 1<<0 | 1<<1
	costFollows    = 1 << 2
	commandFollows = 1 << 3
	pairShift      = 4
)

// headerBytes is what is kept free for the header, the counts and the checksum.
const headerBytes = 1024

// valueBytes are those of a value, and of what the values of a rule are of.
const valueBytes = 8

// A Writer gathers the hits of a batch and makes its bytes. [NewWriter] makes one; it is used again for each
// batch.
type Writer struct {
	rules []string
	of    []uint64 // per rule: what the values of its hits are of, 0 where they have none; nil where no rule's have any
	names []int32  // per rule: one more than its number in the batch, 0 before its first hit
	used  []int    // rules, by their number in the batch

	pairs    []pair
	keys     []byte // the texts of all pairs
	packed   []byte // the bytes of all pairs
	items    []item
	body     []byte // the bytes of all items, without costs
	occurred int    // pairs that have an item: all, or all but the one being added
	size     int

	byPair  index // pairs by rule and key
	byTime  index // hits by pair and time
	indexed int   // items that byTime knows of; it is needed only when a pair's times go back
	seed    seeds
}

type pair struct {
	hash       uint64
	rule       int32
	start, end int32 // in keys
	since      int32 // items before this one stand before a command
	newest     int32 // of its hits since then the one with the latest time, -1 before the first
	latest     int64 // that time
}

type item struct {
	unixMilli int64
	cost      int64 // 0 in a command
	pair      int32
	start     int32 // in body
}

// Clients choose keys, and at some sources times. Without knowing the seeds no client can choose
// them so that they collide.
type seeds struct {
	key        maphash.Seed
	time, pair uint64 // odd
}

// NewWriter returns a Writer that waits for Reset.
func NewWriter() *Writer {
	return &Writer{seed: seeds{maphash.MakeSeed(), rand.Uint64() | 1, rand.Uint64() | 1}}
}

// Reset begins a batch of hits of these rules. Only the names of those that occur are written.
func (w *Writer) Reset(rules []string) { w.ResetValues(rules, nil) }

// ResetValues begins a batch of hits of rules some of whose hits have values: of says by rule what these are of, 0 where
// there are none. It is nil where no rule's hits have any.
func (w *Writer) ResetValues(rules []string, of []uint64) {
	w.rules, w.of = rules, of
	w.names = slices.Grow(w.names[:0], len(rules))[:len(rules)]
	clear(w.names)
	w.used = w.used[:0]
	w.pairs = w.pairs[:0]
	w.keys = w.keys[:0]
	w.packed = w.packed[:0]
	w.items = w.items[:0]
	w.body = w.body[:0]
	w.occurred = 0
	w.indexed = 0
	w.byPair.reset()
	w.byTime.reset()
	w.size = headerBytes
}

// Len returns how many hits and commands there are.
func (w *Writer) Len() int { return len(w.items) }

// Size returns the most that the batch's length can be if it ends here.
func (w *Writer) Size() int { return w.size }

// Need returns the most that a hit takes of a batch. The hits of one request go into one cut: ask
// for all of them before adding the first.
func Need(rule string, key []byte) int { return len(rule) + len(key) + 64 }

// Fits reports whether so many bytes fit.
func (w *Writer) Fits(need int) bool { return need <= MaxBytes-w.size }

// Add adds a hit of a rule, given by its index in what Reset got. It reports whether it fits (that is,
// whether its Need does); if not, the batch is as it was, and has to end here. A cost below 1 is no hit.
func (w *Writer) Add(rule int, key []byte, unixMilli, cost int64) bool {
	if !w.Fits(Need(w.rules[rule], key)) {
		return false
	}
	if cost < 1 {
		return true
	}
	if w.hasValues(rule) {
		return w.AddValue(rule, key, unixMilli, 0)
	}

	// Hits of one pair and millisecond become one hit with the sum of their costs. Nearly always the time is the pair's
	// latest or a new one; only a time that went back has to be looked up.
	number := w.number(rule, key)
	p := &w.pairs[number]
	if p.newest < 0 || unixMilli > p.latest {
		p.newest, p.latest = int32(len(w.items)), unixMilli
	} else if at := w.findHit(p, number, unixMilli); at >= 0 {
		w.raise(at, cost)
		return true
	}

	w.append(number, unixMilli, cost, 0)
	w.size += costBytes(cost)
	return true
}

// AddValue adds a hit with a value, of a rule whose hits have values. It reports whether it fits, as Add does.
func (w *Writer) AddValue(rule int, key []byte, unixMilli int64, value uint64) bool {
	if !w.Fits(Need(w.rules[rule], key)) {
		return false
	}
	w.append(w.number(rule, key), unixMilli, 1, 0)
	w.body = binary.LittleEndian.AppendUint64(w.body, value)
	w.size += valueBytes
	return true
}

// AddMember adds the block of a member of a group, as a hit with a value. ID is below 2^62-1, and names the block. It reports
// whether it fits, as Add does.
func (w *Writer) AddMember(rule int, key []byte, unixMilli int64, value, id uint64, gone bool) bool {
	if !w.Fits(Need(w.rules[rule], key)) {
		return false
	}
	cost := memberCost(id, gone)
	w.append(w.number(rule, key), unixMilli, 1, costFollows)
	w.body = binary.AppendUvarint(w.body, uint64(cost))
	w.body = binary.LittleEndian.AppendUint64(w.body, value)
	w.size += costBytes(cost) + valueBytes
	return true
}

// NetworkShare is the cost of a hit that AddShare has added: no block of a member has it.
const NetworkShare = 1

// AddShare adds which share of the requests the network of a group sent, in millionths, as a hit with a value. It reports
// whether it fits, as Add does.
func (w *Writer) AddShare(rule int, key []byte, unixMilli int64, share uint64) bool {
	return w.AddValue(rule, key, unixMilli, share)
}

// memberCost is the cost of a hit that is the block of a member: its id, and whether it is gone, plus two, because without
// a cost there is none to read.
func memberCost(id uint64, gone bool) int64 {
	cost := int64(id<<1) + 2
	if gone {
		cost++
	}
	return cost
}

// Member returns the id of the block of a member, and whether it is gone, of a hit that AddMember has added.
func Member(cost int64) (id uint64, gone bool) { return uint64(cost-2) >> 1, (cost-2)&1 == 1 }

// hasValues reports whether the hits of a rule have values.
func (w *Writer) hasValues(rule int) bool { return w.of != nil && w.of[rule] != 0 }

// Unblock adds the command to forget window and level of a key, behind the hits that were added before it. It
// reports whether it fits, as Add does.
func (w *Writer) Unblock(rule int, key []byte, unixMilli int64, id string) bool {
	if !w.Fits(Need(w.rules[rule], key) + len(id)) {
		return false
	}
	number := w.number(rule, key)
	w.append(number, unixMilli, 0, commandFollows)
	before := len(w.body)
	w.body = appendText(append(w.body, unblock), id)
	w.size += len(w.body) - before
	p := &w.pairs[number]

	// A later hit must not be added to one before the command: the command makes the aggregator forget that one.
	p.since, p.newest = int32(len(w.items)), -1
	return true
}

// number returns that of a pair, which is added when it is new.
func (w *Writer) number(rule int, key []byte) int {
	if w.byPair.full() {
		w.byPair.grow(w.hashPair)
	}
	hash := maphash.Bytes(w.seed.key, key) + uint64(rule)*w.seed.pair
	slot := w.byPair.home(hash)

	// Ends, because the index is at most half full.
	for {
		number, taken := w.byPair.number(slot)
		if !taken {
			break
		}
		p := &w.pairs[number]
		if p.hash == hash && int(p.rule) == rule && string(w.keys[p.start:p.end]) == string(key) {
			return number
		}
		slot = w.byPair.next(slot)
	}

	w.byPair.put(slot, len(w.pairs))

	p := pair{hash: hash, rule: int32(rule), newest: -1}
	if w.names[p.rule] == 0 {
		w.used = append(w.used, int(p.rule))
		w.names[p.rule] = int32(len(w.used))
		name := len(w.rules[p.rule])
		w.size += uvarintBytes(uint64(name)) + name
		if w.of != nil {
			w.size += valueBytes
		}
	}

	p.start = int32(len(w.keys))
	w.keys = append(w.keys, key...)
	p.end = int32(len(w.keys))
	w.pairs = append(w.pairs, p)
	before := len(w.packed)
	w.packed = appendPair(w.packed, int(w.names[p.rule]-1), key)
	w.size += len(w.packed) - before

	return len(w.pairs) - 1
}

func (w *Writer) hashPair(number int) uint64 { return w.pairs[number].hash }

// findHit returns the hit of a pair at a time since the pair's last command, or -1.
func (w *Writer) findHit(p *pair, number int, unixMilli int64) int {
	if unixMilli == p.latest {
		return int(p.newest)
	}
	w.indexTimes()
	slot := w.byTime.home(w.hashTime(number, unixMilli))
	for {
		at, taken := w.byTime.number(slot)
		if !taken {
			return -1
		}
		it := &w.items[at]
		if it.unixMilli == unixMilli && int(it.pair) == number && it.cost > 0 && at >= int(p.since) {
			return at
		}
		slot = w.byTime.next(slot)
	}
}

// indexTimes makes byTime know of all items.
func (w *Writer) indexTimes() {
	for ; w.indexed < len(w.items); w.indexed++ {
		if w.byTime.full() {
			w.byTime.grow(w.hashItem)
		}
		w.byTime.insert(w.hashItem(w.indexed), w.indexed)
	}
}

func (w *Writer) hashItem(at int) uint64 {
	return w.hashTime(int(w.items[at].pair), w.items[at].unixMilli)
}

func (w *Writer) hashTime(number int, unixMilli int64) uint64 {
	return uint64(unixMilli)*w.seed.time + uint64(number)*w.seed.pair
}

// raise adds to the cost of a hit.
func (w *Writer) raise(at int, cost int64) {
	was := w.items[at].cost
	sum := was + cost
	if sum < was {
		sum = math.MaxInt64
	}
	w.items[at].cost = sum
	w.size += costBytes(sum) - costBytes(was)
}

// append adds an item; what else its head announces, the caller appends.
func (w *Writer) append(number int, unixMilli, cost int64, head uint64) {
	body := w.body
	start := len(body)
	var difference uint64
	if n := len(w.items); n > 0 {
		head, difference = addTime(head, unixMilli-w.items[n-1].unixMilli)
	}

	// The cost is not written yet, because later hits may still raise it; appendItems puts it in.
	head |= w.distance(number) << pairShift
	body = binary.AppendUvarint(body, head)
	if head&timeBits != timeSame {
		body = binary.AppendUvarint(body, difference)
	}

	w.items = append(w.items, item{unixMilli, cost, int32(number), int32(start)})
	w.size += len(body) - start
	w.body = body
}

// distance returns how many pairs before the next new one a pair is, and counts it when it is that.
func (w *Writer) distance(number int) uint64 {
	if number == w.occurred {
		w.occurred++
		return 0
	}
	return uint64(w.occurred - number)
}

// addTime returns how a time is written that is so many milliseconds after the one before.
func addTime(head uint64, millis int64) (newHead, difference uint64) {
	if millis == 0 {
		return head | timeSame, 0
	}
	if seconds := millis / 1000; seconds*1000 == millis {
		return head | timeSeconds, zigzag(seconds)
	}
	return head | timeMillis, zigzag(millis)
}

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

func costBytes(cost int64) int {
	if cost == 1 {
		return 0
	}
	return uvarintBytes(uint64(cost))
}

func uvarintBytes(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// Append appends the batch's bytes. The Writer stays as it is: more can be added, and the batch made again.
// It fails when the header cannot be one.
func (w *Writer) Append(b []byte, h Header) ([]byte, error) {
	if err := h.validate(); err != nil {
		return b, err
	}
	start := len(b)
	version := byte(Version)
	if slices.ContainsFunc(w.used, w.hasValues) {
		version = VersionValues
	}
	b = append(slices.Grow(b, w.size), version)
	b = h.append(b)
	b = binary.AppendUvarint(b, uint64(len(w.used)))
	for _, rule := range w.used {
		b = appendText(b, w.rules[rule])
		if version == VersionValues {
			b = binary.LittleEndian.AppendUint64(b, w.of[rule])
		}
	}

	b = binary.AppendUvarint(b, uint64(len(w.pairs)))
	b = append(b, w.packed...)
	// The times are relative to a clock that is known only now, so the first one is written here and not by append.
	if len(w.items) > 0 {
		b = binary.AppendVarint(b, w.items[0].unixMilli-h.Clock)
	}

	return seal(w.appendItems(b), start), nil
}

// appendItems appends the body, with the costs in their places.
func (w *Writer) appendItems(b []byte) []byte {
	done := 0
	for n := range w.items {
		it := &w.items[n]
		if it.cost <= 1 {
			continue
		}

		end := len(w.body)
		if n+1 < len(w.items) {
			end = int(w.items[n+1].start)
		}

		// The cost belongs behind the item's bytes, and its bit into the item's head, which is the item's first byte.
		b = append(b, w.body[done:end]...)
		b[len(b)-(end-int(it.start))] |= costFollows
		b = binary.AppendUvarint(b, uint64(it.cost))
		done = end
	}

	return append(b, w.body[done:]...)
}
