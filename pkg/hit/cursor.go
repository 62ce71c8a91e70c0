package hit

import (
	"encoding/binary"

	"weir/internal/varint"
)

// A cursor reads the parts that batches and positions are made of.
type cursor struct{ varint.Reader }

func newCursor(b []byte) cursor { return cursor{varint.Reader{Left: b}} }

func (c *cursor) text() []byte { return c.Text(MaxBytes) }

// word reads 8 bytes.
func (c *cursor) word() uint64 {
	b := c.Take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}
