package window

// seen is the hits of a key that are kept, where limits are of different values.
type seen struct {
	values    []seenValue // in the order of time
	index     []uint16    // of the newest hit of each value, its place and one, by the value's hash: linear probing
	different int         // values in it
	start     int         // hits from here on are behind the last block, and count
	spans     []span      // of the limits
}

// The memory of a hit, and of a place in the index.
const (
	bytesOfValue = 16
	bytesOfPlace = 2
)

// A span is the window of a limit that ends with the newest hit.
type span struct {
	from      int32 // its first hit
	different int32 // values in it
}

// A seenValue is a hit. Its word is the instant, by how many places back the hit before it has the same value, 0 for none,
// and two bits.
type seenValue struct{ value, word uint64 }

const (
	valueNext  = 1 << iota // a newer hit has the same value
	valueAgain             // of those that were counted, a newer one has the same value

	backShift = 2
	backBits  = 20
)

func newSeenValue(at int64, value uint64) seenValue {
	return seenValue{value, uint64(at) << (backShift + backBits)}
}

func (o *seenValue) at() int64 { return int64(o.word >> (backShift + backBits)) }
func (o *seenValue) back() int { return int(o.word >> backShift & (1<<backBits - 1)) }

func (o *seenValue) setBack(back int) {
	o.word = o.word&^((1<<backBits-1)<<backShift) | uint64(back)<<backShift
}

// before is the place of the hit before one that has the same value; -1.
func (v *seen) before(j int) int {
	if back := v.values[j].back(); back > 0 {
		return j - back
	}
	return -1
}

// follow has a hit follow another of the same value, or none.
func (v *seen) follow(before, j int) {
	if before >= 0 {
		v.values[before].word |= valueNext
		v.values[j].setBack(j - before)
	}
}

// begin has the hits from a place on count, and none yet.
func (v *seen) begin(start int) {
	v.start = start
	for i := range v.spans {
		v.spans[i] = span{from: int32(start)}
	}
}

// after is the first place of the hits that are after an instant.
func (v *seen) after(at int64) int {
	lo := 0
	for hi := len(v.values); lo < hi; {
		if mid := int(uint(lo+hi) / 2); v.values[mid].at() > at {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// slot is where the index begins to look for a value.
func (v *seen) slot(value uint64) int {
	return int(value * 0x9e3779b97f4a7c15 >> 32 & uint64(len(v.index)-1))
}

// find is the place of the newest hit of a value; -1.
func (v *seen) find(value uint64) int {
	if len(v.index) == 0 {
		return -1
	}
	for at := v.slot(value); ; at = (at + 1) & (len(v.index) - 1) {
		switch place := int(v.index[at]) - 1; {
		case place < 0:
			return -1
		case v.values[place].value == value:
			return place
		}
	}
}

// point has the index point to another place of a value, whose values are equal, or to the first.
func (v *seen) point(from, to int) {
	at := v.slot(v.values[to].value)
	for int(v.index[at]) != from+1 {
		at = (at + 1) & (len(v.index) - 1)
	}
	if from < 0 {
		v.different++
	}
	v.index[at] = uint16(to + 1)
}

// link makes the index, and what refers to other places, of the hits that there are.
func (v *seen) link() {
	size := 16
	for size < 2*cap(v.values) {
		size *= 2
	}
	if size == len(v.index) {
		clear(v.index)
	} else {
		v.index = make([]uint16, size)
	}

	v.different = 0
	for j := range v.values {
		one := &v.values[j]
		before := v.find(one.value)
		*one = newSeenValue(one.at(), one.value)
		v.follow(before, j)
		v.point(before, j)
	}
}

// dropMarked drops the hits that are marked.
func (v *seen) dropMarked() {
	n := 0
	for _, one := range v.values {
		if one.word&valueAgain == 0 {
			v.values[n] = one
			n++
		}
	}
	if n < len(v.values) {
		v.values = v.values[:n]
		v.link()
	}
}

// keepNewest drops all but the newest hits of values, and the oldest of these beyond a number.
func (v *seen) keepNewest(most int) {
	left := 0
	for j := len(v.values) - 1; j >= 0; j-- {
		one := &v.values[j]
		one.word |= valueAgain
		if one.word&valueNext == 0 && left < most {
			one.word &^= valueAgain
			left++
		}
	}
	v.dropMarked()
}
