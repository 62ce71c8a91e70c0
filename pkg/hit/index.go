package hit

import "math/bits"

// An index finds numbers by their hash: open addressing, linear probing, at most half full. A slot counts
// only when it carries the present generation, so emptying it costs nothing. ARCHITECTURE.md has the reason why it
// shares no code with the other tables of this kind.
type index struct {
	slots      []uint32 // none, or a power of two: generation and number
	shift      uint     // leaves of a hash as many upper bits as slots need
	generation uint32
	used       int
}

const (
	firstSlots = 16
	numberBits = 18 // a batch has at most MaxBytes pairs and as many items
	lastNumber = 1<<numberBits - 1

	lastGeneration = 1<<(32-numberBits) - 1
)

func (x *index) reset() {
	x.used = 0
	x.generation++
	if x.generation > lastGeneration {
		clear(x.slots)
		x.generation = 1
	}
}

func (x *index) home(hash uint64) int { return int(hash >> x.shift) }

func (x *index) next(at int) int { return (at + 1) & (len(x.slots) - 1) }

// number returns the number in a slot, and whether there is one.
func (x *index) number(at int) (int, bool) {
	s := x.slots[at]
	return int(s & lastNumber), s>>numberBits == x.generation
}

// put fills a slot that was empty.
func (x *index) put(at, number int) {
	x.used++
	x.slots[at] = x.generation<<numberBits | uint32(number)
}

// full reports whether it has to grow before it takes one more number.
func (x *index) full() bool { return 2*x.used >= len(x.slots) }

// grow doubles the slots; hash tells the hashes of the numbers that are there.
func (x *index) grow(hash func(number int) uint64) {
	old := *x
	x.slots = make([]uint32, max(firstSlots, 2*len(old.slots)))
	x.shift = uint(65 - bits.Len(uint(len(x.slots))))
	x.generation, x.used = 1, 0
	for at := range old.slots {
		if number, taken := old.number(at); taken {
			x.insert(hash(number), number)
		}
	}
}

func (x *index) insert(hash uint64, number int) {
	at := x.home(hash)
	for {
		if _, taken := x.number(at); !taken {
			break
		}
		at = x.next(at)
	}
	x.put(at, number)
}
