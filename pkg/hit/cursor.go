package hit

import (
	"encoding/binary"
	"math/bits"
)

// A cursor takes values from the front of bytes. When they do not hold what is asked for it fails: it is
// empty from then on, and what it gives is zero.
type cursor struct {
	left   []byte
	failed bool
}

func (c *cursor) fail() { c.left, c.failed = nil, true }

// uvarint reads up to four bytes without a branch on how many they are: of hits that is hard to foretell.
func (c *cursor) uvarint() uint64 {
	if len(c.left) < 8 {
		return c.longUvarint()
	}
	v := binary.LittleEndian.Uint64(c.left)
	last := bits.TrailingZeros64(^v & 0x80808080_80808080) // the upper bit of the last byte
	if last > 31 {
		return c.longUvarint()
	}
	c.left = c.left[last/8+1:]
	v &= 1<<last - 1
	return v&0x7f | v>>1&(0x7f<<7) | v>>2&(0x7f<<14) | v>>3&(0x7f<<21)
}

func (c *cursor) longUvarint() uint64 {
	v, n := binary.Uvarint(c.left)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.left = c.left[n:]
	return v
}

func (c *cursor) varint() int64 {
	u := c.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// number reads one that is at most most.
func (c *cursor) number(most uint64) int64 {
	v := c.uvarint()
	if v > most {
		c.fail()
		return 0
	}
	return int64(v)
}

func (c *cursor) byte() byte {
	if len(c.left) == 0 {
		c.fail()
		return 0
	}
	v := c.left[0]
	c.left = c.left[1:]
	return v
}

// take returns the next n bytes, or none when there are fewer.
func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.left) {
		c.fail()
		return nil
	}
	v := c.left[:n:n]
	c.left = c.left[n:]
	return v
}

func (c *cursor) text() []byte {
	return c.take(int(c.number(MaxBytes)))
}

// shortText reads one that is at most MaxText long.
func (c *cursor) shortText() []byte {
	return c.take(int(c.number(MaxText)))
}

// end fails when something is left.
func (c *cursor) end() {
	if len(c.left) > 0 {
		c.fail()
	}
}
