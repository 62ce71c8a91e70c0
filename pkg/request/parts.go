package request

import "sync/atomic"

const (
	maxLineBytes  = 16 << 20  // of a line that a container's runtime has cut into parts
	ownPartsBytes = 128 << 10 // of such a line, always; the rest needs room in the Memory that decoders share
)

// A Memory bounds the bytes that the lines in parts of many decoders use together. It may be used by several goroutines.
type Memory struct{ left atomic.Int64 }

// NewMemory returns a Memory of so many bytes.
func NewMemory(bytes int64) *Memory {
	m := &Memory{}
	m.left.Store(bytes)
	return m
}

// take takes bytes, if there are enough. A nil Memory has no bound.
func (m *Memory) take(bytes int) bool {
	if m == nil {
		return true
	}
	if m.left.Add(-int64(bytes)) < 0 {
		m.give(bytes)
		return false
	}
	return true
}

func (m *Memory) give(bytes int) {
	if m != nil {
		m.left.Add(int64(bytes))
	}
}

// parts joins a line that arrives in several records. Without enough memory it keeps the beginning of the line.
type parts struct {
	memory *Memory
	text   []byte
	length int  // of the parts so far, kept or not
	open   bool // the last part has not come yet
	short  bool // text is only the beginning
}

// add adds a part, and reports whether it was the last one: then text is the line, or its beginning.
func (p *parts) add(part string, last bool) (complete bool) {
	if !p.open {
		p.text, p.length, p.short = p.text[:0], 0, false
	}
	p.open = !last
	p.length += len(part)

	// A line that is too long is not kept: its parts are read only to find its end.
	if p.length > maxLineBytes {
		p.free()
		p.short = true
	}
	if !p.short && !p.grow(len(part)) {
		p.short = true
		part = part[:min(len(part), cap(p.text)-len(p.text))]
		p.text = append(p.text, part...)
	} else if !p.short {
		p.text = append(p.text, part...)
	}

	return last
}

// grow makes room for bytes, if the memory has it.
func (p *parts) grow(bytes int) bool {
	need := len(p.text) + bytes
	switch {
	case need <= cap(p.text):
		return true
	case need <= ownPartsBytes:
		p.text = append(make([]byte, 0, ownPartsBytes), p.text...)
		return true
	}

	size := min(max(need, 2*cap(p.text)), maxLineBytes)
	if !p.memory.take(size) {
		if cap(p.text) == 0 {
			p.text = make([]byte, 0, ownPartsBytes)
		}
		return false
	}
	text := append(make([]byte, 0, size), p.text...)
	p.free()
	p.text = text
	return true
}

// free gives back the memory of a long line.
func (p *parts) free() {
	if cap(p.text) > ownPartsBytes {
		p.memory.give(cap(p.text))
		p.text = nil
	}
}
