package hit

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// A Verdict says what to do with a batch.
type Verdict uint8

const (
	Apply    Verdict = iota // it is new: count it
	Seen                    // it was counted before: skip it
	Conflict                // it contradicts what was counted: do not count it, and say so
	Full                    // it is of a source that there is no room for
)

func (v Verdict) String() string {
	switch v {
	case Apply:
		return "apply"
	case Seen:
		return "seen"
	case Conflict:
		return "conflict"
	case Full:
		return "full"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Positions remembers for each source how far its batches were counted in one partition, so that each is
// counted once however often it is sent.
//
// A batch is new when it begins at or behind the end of the last one that was applied, or is the next part of
// the same cut. It was seen when it ends before the last one, or is the last one (the checksum tells), or an
// earlier part of its cut. Anything else is a conflict: it begins before the last one's end and ends behind
// it; it ends where the last one does and has another checksum, another beginning, or a part that does not
// follow. A conflict changes no position.
//
// A source that was silent for longer than the retention of the log is forgotten: no collector sends its old
// batches any more. Silence is measured in the time of the log, which is the latest time of any of its records, and
// not by a clock, so that a reader that reads the log again judges alike.
//
// There is a limit to the number of sources. When that many are known and none can be forgotten, a batch of
// another one is Full, and nothing changes.
type Positions struct {
	limit     int
	retention time.Duration
	sources   map[string]position
	now       int64 // of the log, Unix ms
}

// A position is where the last batch that was applied ends.
type position struct {
	from, to int64
	part     int
	more     bool
	checksum uint64
	heard    int64 // when the source sent the last batch, whatever its verdict; at most now
}

// NewPositions returns Positions of no source yet.
func NewPositions(limit int, retention time.Duration) *Positions {
	return &Positions{limit, retention, map[string]position{}, math.MinInt64}
}

// Len returns how many sources are remembered.
func (p *Positions) Len() int { return len(p.sources) }

// Judge says what to do with a batch, and remembers it when that is Apply. at is the time of the batch's
// record in the log, Unix ms.
func (p *Positions) Judge(h Header, checksum uint64, at int64) Verdict {
	p.now = max(p.now, at)
	last, known := p.sources[h.Source]
	verdict := Apply
	switch {
	case known && !p.silent(last):
		verdict = last.judge(h, checksum)
	case !known && !p.room():
		return Full
	}

	// A conflict and a batch seen before change no position, but show that the source is alive: it is not forgotten.
	if verdict == Apply {
		last = position{h.From, h.To, h.Part, h.More, checksum, 0}
	}
	last.heard = p.now
	p.sources[h.Source] = last
	return verdict
}

// wentBack is by how much the clock of a batch must be ahead of the time at which its source was last heard of. A batch
// that is sent again has the clock of the first time.
const wentBack = int64(60_000)

// WentBack reports whether a batch was made only after its source had sent later positions, so that its collector has
// gone back, and perhaps its log too. It is asked before Judge.
func (p *Positions) WentBack(h Header) bool {
	last, known := p.sources[h.Source]
	return known && h.From < last.to && h.Clock > last.heard+wentBack
}

// room reports whether there is some for one more source.
func (p *Positions) room() bool {
	if len(p.sources) >= p.limit {
		p.forget()
	}
	return len(p.sources) < p.limit
}

func (last position) judge(h Header, checksum uint64) Verdict {
	switch {
	// The order of the cases matters: each one relies on those above it. A batch that only overlaps the last one is
	// neither new nor seen, so it contradicts it.
	case h.From >= last.to:
		return Apply
	case h.To < last.to:
		return Seen
	case h.To > last.to || h.From != last.from:
		return Conflict
	case h.Part < last.part:
		return Seen
	case h.Part == last.part && checksum == last.checksum:
		return Seen
	case h.Part == last.part+1 && last.more:
		return Apply
	}

	return Conflict
}

func (p *Positions) silent(last position) bool {
	return p.silence(last) > uint64(p.retention.Milliseconds())
}

// silence returns for how many milliseconds a source has sent nothing.
func (p *Positions) silence(last position) uint64 { return uint64(p.now) - uint64(last.heard) }

// forget forgets the sources that are silent.
func (p *Positions) forget() {
	maps.DeleteFunc(p.sources, func(_ string, last position) bool { return p.silent(last) })
}

// Append appends what Read reads: about 20 bytes a source, and what its name does not share with the one
// before in their order. Silent sources are forgotten before. The same positions give the same bytes.
func (p *Positions) Append(b []byte) []byte {
	p.forget()
	start := len(b)
	b = append(b, Version)
	b = binary.AppendVarint(b, p.now)
	b = binary.AppendUvarint(b, uint64(len(p.sources)))
	before := ""

	// Sorted, so that the same positions give the same bytes, and names next to each other share their beginnings.
	for _, source := range slices.Sorted(maps.Keys(p.sources)) {
		shared := 0
		for shared < len(before) && shared < len(source) && before[shared] == source[shared] {
			shared++
		}

		b = binary.AppendUvarint(b, uint64(shared))
		b = appendText(b, source[shared:])
		b = p.appendPosition(b, p.sources[source])
		before = source
	}

	return seal(b, start)
}

func (p *Positions) appendPosition(b []byte, last position) []byte {
	b = binary.AppendUvarint(b, uint64(last.from))
	b = binary.AppendUvarint(b, uint64(last.to-last.from))
	b = binary.AppendUvarint(b, partNumber(last.part, last.more))
	b = binary.LittleEndian.AppendUint64(b, last.checksum)
	return binary.AppendUvarint(b, p.silence(last))
}

// Read replaces all positions by those that Append wrote, also where they are more than the limit. Its errors
// are [ErrNewer] and [ErrDamaged]; after one the positions are as they were.
func (p *Positions) Read(b []byte) error {
	body, err := unseal(b, Version)
	if err != nil {
		return fmt.Errorf("reading positions: %w", err)
	}

	c := newCursor(body)
	now := c.Signed()
	sources := map[string]position{}
	before := ""

	// A source takes more than a byte, so that the count cannot be larger than what there is to read.
	for n := range c.AtMost(int64(len(body))) {
		// Read a text that shares its beginning with another.
		shared := c.AtMost(int64(len(before)))
		rest := c.Text(MaxText - shared)
		source := before[:shared] + string(rest)

		// Names in another order, or twice, are bytes that Append never writes.
		if n > 0 && source <= before {
			c.Fail()
		}
		sources[source] = c.position(now)
		if c.Failed {
			break
		}
		before = source
	}

	if c.End(); c.Failed {
		return fmt.Errorf("reading positions: %w: the checksum holds, but there is what no version writes", ErrDamaged)
	}
	p.sources, p.now = sources, now
	return nil
}

func (c *cursor) position(now int64) (last position) {
	last.from, last.to = c.fromTo()
	last.part, last.more = c.part()
	if b := c.Take(checksumBytes); b != nil {
		last.checksum = binary.LittleEndian.Uint64(b)
	}
	last.heard = int64(uint64(now) - c.Unsigned())
	if last.heard > now {
		c.Fail()
	}
	return last
}
