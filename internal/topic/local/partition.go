package local

import (
	"sync"

	"weir/internal/topic"
)

// A partition is what readers and the writer have to know of one. Only the writer changes it.
type partition struct {
	of     *storedTopic
	number int

	mu     sync.Mutex
	extent                // what readers may see
	latest int64          // time of the last record, Unix ms
	tail   []topic.Record // the last ones, without a gap: those that a compacted topic has lost have no key
	waits  chan struct{}  // closed when there is more; nil when no one waits
}

func (p *partition) span() topic.Span {
	p.mu.Lock()
	defer p.mu.Unlock()
	return topic.Span{Start: p.start, End: p.end}
}

// key is the key of a record.
func (p *partition) key(offset int64) []byte {
	return appendOffset(appendPrefix(make([]byte, 0, prefixBytes+8), aRecord, p.of.Number, p.number), offset)
}

// set replaces the state, when the database was opened.
func (p *partition) set(e extent, latest int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extent, p.latest, p.tail = e, latest, nil
	p.wake()
}

// wake wakes the readers that wait.
func (p *partition) wake() {
	if p.waits != nil {
		close(p.waits)
		p.waits = nil
	}
}

// waiting returns a channel that is closed when there is more. The partition must be locked.
func (p *partition) waiting() <-chan struct{} {
	if p.waits == nil {
		p.waits = make(chan struct{})
	}
	return p.waits
}

// recent appends the records of the tail from an offset on, of about that many bytes. ok is false when the tail begins
// later. The partition must be locked.
func (p *partition) recent(to []topic.Record, from int64, most int) (records []topic.Record, ok bool) {
	if len(p.tail) == 0 || p.tail[0].Offset > from {
		return to, false
	}

	size := 0
	for _, r := range p.tail[from-p.tail[0].Offset:] {
		size += len(r.Key) + len(r.Value)
		if len(to) > 0 && size > most {
			break
		}
		if !p.of.compact || r.Key != nil {
			to = append(to, r)
		}
	}
	return to, true
}

// replaced takes records of a compacted topic out of the tail: their keys have later ones. The partition must be locked.
func (p *partition) replaced(offsets []int64) {
	for _, offset := range offsets {
		if len(p.tail) > 0 && offset >= p.tail[0].Offset {
			one := &p.tail[offset-p.tail[0].Offset]
			one.Key, one.Value = nil, nil // all others have a key
		}
	}
}

// trim moves the start.
func (p *partition) trim(start int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start = start
	p.dropBefore(start)
}

// forget drops the records of the tail before an offset.
func (p *partition) forget(before int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropBefore(before)
}

// dropBefore drops the first records of the tail. The array stays, so it must not keep their bytes alive.
func (p *partition) dropBefore(offset int64) {
	if len(p.tail) == 0 {
		return
	}
	n := min(max(offset-p.tail[0].Offset, 0), int64(len(p.tail)))
	clear(p.tail[:n])
	p.tail = p.tail[n:]
	if len(p.tail) == 0 {
		p.tail = nil
	}
}

// tails bounds what the tails of all partitions keep in memory. The writer uses it.
type tails struct {
	most, held int64
	kept       []keptWrite // the oldest first
}

// A keptWrite is a write whose records are in tails.
type keptWrite struct {
	bytes int64
	parts []keptPart
}

type keptPart struct {
	partition *partition
	end       int64 // of its records
}

// keep notes a write, and drops the oldest ones above the bound.
func (t *tails) keep(w keptWrite) {
	t.kept = append(t.kept, w)
	t.held += w.bytes
	for t.held > t.most && len(t.kept) > 0 {
		for _, part := range t.kept[0].parts {
			part.partition.forget(part.end)
		}
		t.held -= t.kept[0].bytes
		t.kept[0] = keptWrite{}
		t.kept = t.kept[1:]
	}
}
