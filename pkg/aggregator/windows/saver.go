package windows

import (
	"context"
	"fmt"
	"time"

	"weir/internal/store"
)

// When the next checkpoint is due. One writes all windows that have changed, so while many change it waits for their
// hits to become many.
const (
	checkpointEvery  = 2 * time.Second  // so long after the last one, and at once when there is nothing to count
	checkpointLatest = 10 * time.Second // it waits no longer than this
	fewCalls         = 4                // of the store are worth no waiting
	manyHits         = 50               // counted for each window that is written are many

	breatheEvery = 4096 // hits, where several batches are counted of one answer of Kafka
)

// A Saver writes the windows of a partition back, those first that have been changed for longest, and then a checkpoint:
// when all is written that had changed by its moment, and all is acknowledged that had been sent by then.
type Saver struct {
	set      *Set
	now      func() time.Time
	stored   Checkpoint // the last that was written, without its sources
	storedAt time.Time
	next     *nextCheckpoint
	counted  int // hits since the last checkpoint was taken
	breathed int // as many as had been counted when windows were last written
}

// A nextCheckpoint is to be written.
type nextCheckpoint struct {
	Checkpoint
	changed uint64    // has to be written before it
	sent    uint64    // has to be acknowledged before it
	at      time.Time // when changed was last set
}

// NewSaver makes a Saver. Reset and Begin have to follow.
func NewSaver(now func() time.Time) *Saver { return &Saver{now: now} }

// Reset has the Saver write another set. The next checkpoint is forgotten.
func (s *Saver) Reset(set *Set) {
	s.set = set
	s.next = nil
	s.counted = 0
	s.breathed = 0
}

// Begin notes the checkpoint that the store has.
func (s *Saver) Begin(stored Checkpoint) {
	stored.Sources, stored.Traffic = nil, nil
	s.stored, s.storedAt, s.next = stored, s.now(), nil
}

// Stored is the last checkpoint that was written, without its sources, and when it was.
func (s *Saver) Stored() (Checkpoint, time.Time) { return s.stored, s.storedAt }

// Counted notes that hits were counted.
func (s *Saver) Counted(hits int) { s.counted += hits }

// Due reports whether the next checkpoint is to be taken, with an offset that is counted up to. Idle says that there is
// nothing more to count, and awaited that something waits for the checkpoint.
func (s *Saver) Due(offset int64, idle, awaited bool) bool {
	if s.next != nil || s.set.Waiting() > 0 || offset == s.stored.Offset && s.set.Dirty() == 0 {
		return false
	}
	since := s.now().Sub(s.storedAt)
	return idle || since >= checkpointLatest || since >= checkpointEvery && (awaited || !s.worthWaiting())
}

// worthWaiting reports whether a later checkpoint would write much less, because the same windows change again and again,
// and no evicted windows wait for it.
func (s *Saver) worthWaiting() bool {
	dirty := s.set.Dirty()
	return s.set.Leaving() == 0 && dirty > fewCalls*s.set.WriteKeys && s.counted < manyHits*dirty
}

// Take has a checkpoint of now be the next. It waits until as many are acknowledged of what was sent.
func (s *Saver) Take(next Checkpoint, sent uint64) {
	s.next = &nextCheckpoint{next, s.set.Tail(), sent, s.now()}
	s.counted, s.breathed = 0, 0
}

// Writes reports whether a checkpoint is to be written, and the windows before it.
func (s *Saver) Writes() bool { return s.next != nil }

// Saved reports whether the checkpoint of an offset is written.
func (s *Saver) Saved(offset int64) bool { return s.next == nil && s.stored.Offset == offset }

// Save writes some windows back, all where idle, and then the next checkpoint when what is before it is safe: with the
// notes, and where as many are acknowledged of what was sent. It reports whether it wrote the checkpoint.
func (s *Saver) Save(ctx context.Context, idle bool, acknowledged uint64, notes []store.Change) (bool, error) {
	if s.next == nil {
		return false, nil
	}

	s.writeMeanwhile(acknowledged)
	for s.set.Written() < s.next.changed {
		if err := s.WriteBack(ctx); err != nil {
			return false, err
		}
		if !idle {
			break
		}
	}

	if s.set.Written() < s.next.changed || acknowledged < s.next.sent {
		return false, nil
	}
	if err := s.Write(ctx, s.next.Checkpoint, notes); err != nil {
		return false, err
	}
	return true, nil
}

// writeMeanwhile has windows written that change while a checkpoint waits for what was sent, so that they can be
// forgotten.
func (s *Saver) writeMeanwhile(acknowledged uint64) {
	now := s.now()
	if s.set.Written() >= s.next.changed && acknowledged < s.next.sent && now.Sub(s.next.at) >= checkpointEvery {
		s.next.changed, s.next.at = s.set.Tail(), now
	}
}

// Breathes reports whether windows are to be written between the batches of one answer of Kafka.
func (s *Saver) Breathes() bool {
	return s.next != nil && s.set.Written() < s.next.changed && s.counted-s.breathed >= breatheEvery
}

// WriteBack writes a few hundred windows.
func (s *Saver) WriteBack(ctx context.Context) error {
	if err := s.set.WriteBack(ctx); err != nil {
		return err
	}
	s.breathed = s.counted
	return nil
}

// Write writes a checkpoint, with the notes. All that is before it has to be safe.
func (s *Saver) Write(ctx context.Context, next Checkpoint, notes []store.Change) error {
	begun := s.now()
	changes := append([]store.Change{{Space: store.Notes, Key: []byte(CheckpointKey), Value: next.Append(nil)}}, notes...)
	changes = append(changes, next.note()...)
	if err := s.set.own.Write(ctx, changes); err != nil {
		return fmt.Errorf("writing the checkpoint: %w", err)
	}
	s.set.notices.Saved(s.now().Sub(begun))
	s.Begin(next)
	return nil
}
