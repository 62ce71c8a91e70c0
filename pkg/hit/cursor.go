package hit

import "weir/internal/varint"

// A cursor reads the parts that batches and positions are made of.
type cursor struct{ varint.Reader }

func newCursor(b []byte) cursor { return cursor{varint.Reader{Left: b}} }

func (c *cursor) text() []byte { return c.Text(MaxBytes) }
