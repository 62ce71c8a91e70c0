package aggregator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"weir/internal/store"
	"weir/internal/varint"
	"weir/pkg/aggregator/position"
	"weir/pkg/aggregator/windows"
	"weir/pkg/hit"
)

// When a partition takes the next checkpoint. One writes all windows that have changed, so while many change it waits for
// their hits to become many.
const (
	checkpointEvery  = 2 * time.Second  // so long after the last one, and at once when there is nothing to count
	checkpointLatest = 10 * time.Second // it waits no longer than this
	fewCalls         = 4                // of the store are worth no waiting
	manyHits         = 50               // counted for each window that is written are many
)

const (
	checkpointVersion = 1
	unknown           = -1
)

var (
	checkpointKey = []byte("checkpoint")
	listKey       = []byte("list")
)

// A checkpoint says where to go on. It is as of a moment, and is written when all that had changed by then is. Its bytes:
//
//	version     1 byte  1
//	generation  u       of the log of hits
//	offset      u       in it, of the next hit
//	last        u       offset of the last record that was counted, plus one; 0 for none
//	checksum    8 bytes xxhash64 of that record, little endian
//	reached     u       the newest counted time, Unix ms
//	told        u       an offset of the topic blocklist that was acknowledged, plus one; 0 for none
//	sources     the rest: their positions, as pkg/hit writes them
type checkpoint struct {
	position.Point
	reached int64
	told    int64
	sources []byte

	changed, sent uint64    // what has to be written, and acknowledged, before it
	at            time.Time // when changed was last set
}

func (c *checkpoint) append(b []byte) []byte {
	b = append(b, checkpointVersion)
	for _, number := range []int64{c.Generation, c.Offset, c.Last + 1} {
		b = binary.AppendUvarint(b, uint64(number))
	}
	b = binary.LittleEndian.AppendUint64(b, c.Checksum)
	b = binary.AppendUvarint(b, uint64(c.reached))
	b = binary.AppendUvarint(b, uint64(c.told+1))
	return append(b, c.sources...)
}

func readCheckpoint(value []byte) (*checkpoint, error) {
	if windows.LaterVersion(value, checkpointVersion) {
		return nil, fmt.Errorf("the checkpoint: %w: version %d, this program reads up to %d", windows.ErrNewer, value[0], checkpointVersion)
	}
	c := varint.Reader{Left: value}
	if version := c.Take(1); len(version) == 0 || version[0] != checkpointVersion {
		c.Fail()
	}

	found := &checkpoint{Point: position.Point{Generation: c.Number(), Offset: c.Number(), Last: c.Number() - 1}}
	if sum := c.Take(8); len(sum) == 8 {
		found.Checksum = binary.LittleEndian.Uint64(sum)
	}

	found.reached, found.told, found.sources = c.Number(), c.Number()-1, c.Left
	if c.Failed {
		return nil, fmt.Errorf("the checkpoint of %d bytes: %w", len(value), windows.ErrDamaged)
	}
	return found, nil
}

// A Checkpoint is what the store keeps of a partition, in the space Notes under "checkpoint".
type Checkpoint struct {
	Generation, Offset int64 // of the next hit to be counted
	Reached            int64 // the newest counted time, Unix ms
}

// ReadCheckpoint reads a partition's. The errors are windows.ErrNewer and windows.ErrDamaged.
func ReadCheckpoint(value []byte) (Checkpoint, error) {
	c, err := readCheckpoint(value)
	if err != nil {
		return Checkpoint{}, err
	}
	return Checkpoint{c.Generation, c.Offset, c.reached}, nil
}

// begin goes to where the stored checkpoint says; without one to the beginning of the log.
func (p *partition) begin(ctx context.Context, value []byte) error {
	p.replay = replay{}
	if value == nil { // written before any window is, so that these are never of an unknown generation
		value = (&checkpoint{Point: p.position.Next(0), told: unknown, sources: p.sources.Append(nil)}).append(nil)
		if err := p.own.Write(ctx, []store.Change{{Space: store.Notes, Key: checkpointKey, Value: value}}); err != nil {
			return fmt.Errorf("writing the first checkpoint: %w", err)
		}
	}

	found, err := readCheckpoint(value)
	if err == nil {
		err = p.sources.Read(found.sources)
	}

	switch {
	case errors.Is(err, windows.ErrNewer) || errors.Is(err, hit.ErrNewer):
		return stopped{err}
	case err != nil:
		if found, err = p.withoutCheckpoint(ctx, err); err != nil {
			return err
		}
	}

	p.stored, p.storedAt = *found, p.config.Now()
	p.reached = found.reached
	p.position.Begin(found.Point)
	return nil
}

// withoutCheckpoint goes to the beginning of the log where the checkpoint is damaged. The windows say which hits they
// have, as long as the generation is theirs; so nothing is counted again.
func (p *partition) withoutCheckpoint(ctx context.Context, damage error) (*checkpoint, error) {
	newest := int64(unknown)
	for from, last := store.Cursor(""), false; !last; {
		page, err := p.own.Scan(ctx, store.Windows, from, walkPairs)
		if err != nil {
			return nil, fmt.Errorf("finding what the windows have, for %w: %w", damage, err)
		}
		for _, pair := range page.Pairs {
			if record, err := windows.ReadRecord(pair.Value); err == nil {
				newest = max(newest, record.Generation)
			}
		}
		from, last = page.Next, page.Next == ""
	}

	if newest == unknown {
		newest = p.position.Next(0).Generation
	}
	p.logger.Error("the checkpoint in the store is damaged: the log of hits is read again from its beginning, and what the windows have is skipped",
		"error", damage, "generation", newest)

	p.metrics.taken.WithLabelValues("checkpoint").Inc()
	return &checkpoint{Point: position.Point{Generation: newest, Last: unknown}, told: unknown}, nil
}

// safe writes back some of what has changed, and the checkpoint when what is before it is safe.
func (p *partition) safe(ctx context.Context, idle bool) error {
	if p.storeRests() {
		return nil
	}
	if err := p.takeCheckpoint(ctx, idle); err != nil {
		return err
	}

	p.writeMeanwhile()
	for p.ahead != nil && p.windows.Written() < p.ahead.changed {
		if err := p.writeBack(ctx); err != nil {
			return err
		}
		if !idle {
			break
		}
	}

	if p.ahead == nil || p.windows.Written() < p.ahead.changed || p.sent.done() < p.ahead.sent {
		return nil
	}
	next := *p.ahead
	if err := p.writeCheckpoint(ctx, next); err != nil {
		return err
	}

	p.ahead = nil
	return nil
}

// writeBack writes the windows that have been changed for longest, a few hundred.
func (p *partition) writeBack(ctx context.Context) error {
	if err := p.windows.WriteBack(ctx); err != nil {
		return err
	}
	p.breathed = p.counted
	return nil
}

// writeMeanwhile has windows written that change while a checkpoint waits for Kafka, so that they can be forgotten.
func (p *partition) writeMeanwhile() {
	now := p.config.Now()
	if p.ahead != nil && p.windows.Written() >= p.ahead.changed && p.sent.done() < p.ahead.sent && now.Sub(p.ahead.at) >= checkpointEvery {
		p.ahead.changed, p.ahead.at = p.windows.Tail(), now
	}
}

// takeCheckpoint begins the next one when it is time. It also waits for all that was published again by then.
func (p *partition) takeCheckpoint(ctx context.Context, idle bool) error {
	now := p.config.Now()
	since := now.Sub(p.storedAt)
	due := idle || since >= checkpointLatest || since >= checkpointEvery && !p.worthWaiting()
	if p.ahead != nil || !due || len(p.waiting) > 0 || p.position.At().Offset == p.stored.Offset && p.windows.Dirty() == 0 {
		return nil
	}
	if err := p.publishReplayed(ctx); err != nil {
		return err
	}

	p.ahead = &checkpoint{Point: p.position.At(), reached: p.reached, told: p.list.told(), sources: p.sources.Append(nil), changed: p.windows.Tail(), sent: p.sent.taken, at: now}
	p.counted, p.breathed = 0, 0
	return nil
}

// worthWaiting says whether a later checkpoint would write much less, because the same windows change again and again,
// and nothing waits for it: no evicted windows, no verdicts to be published again.
func (p *partition) worthWaiting() bool {
	h := p.windows
	awaited := h.Leaving() > 0 || len(p.replay.touched) > 0 || h.Written() < p.walk.written
	return !awaited && h.Dirty() > fewCalls*h.WriteKeys && p.counted < manyHits*h.Dirty()
}

func (p *partition) writeCheckpoint(ctx context.Context, next checkpoint) error {
	begun := p.config.Now()
	changes := []store.Change{{Space: store.Notes, Key: checkpointKey, Value: next.append(nil)}}
	if p.walk.note.list != p.walk.stored.list || p.walk.note != p.walk.stored {
		changes = append(changes, store.Change{Space: store.Notes, Key: listKey, Value: p.walk.note.append(nil)})
	}
	if err := p.own.Write(ctx, changes); err != nil {
		return fmt.Errorf("writing the checkpoint: %w", err)
	}

	p.walk.stored = p.walk.note
	p.metrics.checkpoint.Observe(p.config.Now().Sub(begun).Seconds())
	p.stored, p.storedAt = next, p.config.Now()
	p.stored.sources = nil
	p.commits.Note(next.Offset)
	return nil
}

// A receipts keeps, in their order, what was sent and is not acknowledged.
type receipts struct {
	queue []*receipt
	gone  uint64 // acknowledged, and before all others
	taken uint64 // sent
}

// done is how many of the first are acknowledged.
func (r *receipts) done() uint64 {
	n := 0
	for n < len(r.queue) && r.queue[n].left.Load() == 0 {
		r.queue[n] = nil
		n++
	}
	r.queue = r.queue[n:]
	r.gone += uint64(n)
	return r.gone
}

func (r *receipts) add(messages int32) *receipt {
	one := &receipt{}
	one.left.Store(messages)
	r.queue = append(r.queue, one)
	r.taken++
	return one
}
