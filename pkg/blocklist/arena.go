package blocklist

import "encoding/binary"

// An arena stores records one after the other in chunks of bytes. A million of them are a few hundred objects for the
// garbage collector, and none has a pointer.
//
// A record is a head, its key without the rule, and its value. It never changes. A replaced or removed record stays as
// dead bytes until half of its chunk is dead. Then the live records move to another chunk and the chunk is given up.
// Readers who still look at such a chunk keep it alive.
type chunk struct {
	bytes []byte
	used  int // bytes; only the writer uses it
	dead  int
}

const (
	chunkBytes = 256 << 10
	unitBytes  = 8  // records begin at multiples of it
	unitBits   = 15 // log2 of the units in a chunk
	headBytes  = 16
)

// A ref is the place of a record: its chunk's number and its unit in it. The zero ref is none: no record begins at a
// chunk's start.
type ref uint32

func (r ref) chunk() int { return int(r >> unitBits) }
func (r ref) byte() int  { return int(r&(1<<unitBits-1)) * unitBytes }

// A packed record is its head, key and value:
//
//	until   8 bytes  when it can be forgotten
//	hash    4 bytes  by which it is found
//	rule    2 bytes  index of the rule, or of the scope of orders
//	flags   1 byte   see the held flags
//	keyed   1 byte   the key's length when it is below 255
//	        then, for longer keys, 2 bytes of length; the key; the value's length in 2 bytes; the value
type packed []byte

func (p packed) until() int64 { return int64(binary.LittleEndian.Uint64(p)) }
func (p packed) hash() uint32 { return binary.LittleEndian.Uint32(p[8:]) }
func (p packed) rule() int    { return int(binary.LittleEndian.Uint16(p[12:])) }
func (p packed) flags() byte  { return p[14] }

const longKey = 255

// spanKey returns where the key begins and ends.
func (p packed) spanKey() (begin, end int) {
	if length := int(p[15]); length != longKey {
		return headBytes, headBytes + length
	}
	return headBytes + 2, headBytes + 2 + int(binary.LittleEndian.Uint16(p[headBytes:]))
}

func (p packed) key() []byte {
	begin, end := p.spanKey()
	return p[begin:end:end]
}

func (p packed) value() []byte {
	_, end := p.spanKey()
	length := int(binary.LittleEndian.Uint16(p[end:]))
	return p[end+2 : end+2+length : end+2+length]
}

// long returns how many bytes the record takes, including the gap to the next one.
func (p packed) long() int {
	_, end := p.spanKey()
	return roundUp(end + 2 + int(binary.LittleEndian.Uint16(p[end:])))
}

func roundUp(bytes int) int { return (bytes + unitBytes - 1) &^ (unitBytes - 1) }

// A head is the part of a record before its key and value.
type head struct {
	until int64
	hash  uint32
	rule  uint16
	flags byte
}

// need returns how many bytes a record takes.
func need(key, value []byte) int {
	if len(key) < longKey {
		return roundUp(headBytes + len(key) + 2 + len(value))
	}
	return roundUp(headBytes + 2 + len(key) + 2 + len(value))
}

// pack writes a record at the end of the chunk, which must have room, and returns its unit.
func (c *chunk) pack(h head, key, value []byte) int {
	begin := c.used

	// It is written in place: the chunk has room, and no reader has a ref to these bytes before the slot is stored.
	b := c.bytes[:begin]
	b = binary.LittleEndian.AppendUint64(b, uint64(h.until))
	b = binary.LittleEndian.AppendUint32(b, h.hash)
	b = binary.LittleEndian.AppendUint16(b, h.rule)
	b = append(b, h.flags, byte(min(len(key), longKey)))
	if len(key) >= longKey {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(key)))
	}

	b = append(b, key...)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	b = append(b, value...)
	c.used = roundUp(len(b))
	return begin / unitBytes
}

func newChunk() *chunk { return &chunk{bytes: make([]byte, chunkBytes), used: unitBytes} }
