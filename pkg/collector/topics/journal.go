package topics

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"weir/internal/sleep"
	"weir/internal/topic"
	"weir/internal/varint"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
)

// A commitJournal keeps a partition's cuts in its group's commit. It has a goroutine: cuts that come during a commit
// go with the next one.
//
// The group accepts a commit only from the owner of the partition. A commit that is refused for that reason drops the
// cuts that it was to note: they were not sent, and the next owner reads their records.
type commitJournal struct {
	intake *pipeline.Intake
	claim  *topic.Claim
	member *pace.Member
	count  func(offset, reached int64) // notes how far Kafka has all hits

	mu       sync.Mutex
	standing kafkaNote // without the parts that follow from the other fields
	offset   int64
	cuts     []pipeline.Again
	pending  []*pipeline.Cut // the last of the cuts: no commit has them yet
	fault    error
	end      bool // there is nothing more to read
	marked   time.Time

	kick    chan struct{}
	closing chan struct{}
	ended   chan struct{}
	last    topic.Commit
}

const (
	commitEvery = time.Second
	hastyEvery  = 5 * time.Millisecond // while a backlog is read: others wait for the commits
	markEvery   = 10 * time.Minute
	waitsBeat   = 10 // s
)

func newCommitJournal(in *pipeline.Intake, claim *topic.Claim, m *pace.Member, t *takeover, count func(offset, reached int64)) *commitJournal {
	return &commitJournal{intake: in, claim: claim, member: m, count: count, standing: t.note, offset: t.offset, cuts: t.again,
		kick: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
}

// Note implements journal.
func (j *commitJournal) Note(c *pipeline.Cut) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fault != nil {
		c.SetNoted(j.fault)
		return
	}

	j.standing.Rules = c.Fingerprint
	j.cuts = append(j.cuts, pipeline.Again{From: c.From, To: c.To, Clock: c.Clock})
	j.pending = append(j.pending, c)
	sleep.Wake(j.kick)
}

// Done implements journal. Cuts are done in their order.
func (j *commitJournal) Done(c *pipeline.Cut) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.cuts) == 0 || j.cuts[0].To != c.To {
		return // it was refused
	}

	j.cuts = j.cuts[1:]
	j.offset = c.To
	if c.Reached != pace.NoTime {
		j.standing.Reached = c.Reached
		j.count(c.To, c.Reached)
	}

	if last, writers, ok := readRecordID(c.Note); ok {
		j.standing.Writers = writers
		now := j.intake.Now()
		if now.Sub(j.marked) > markEvery {
			j.standing.Mark, j.marked = j.standing.Last, now
		}
		j.standing.Last, j.standing.At = &last, now.UnixMilli()
	}
}

// chose notes the form that was found out.
func (j *commitJournal) chose(envelope, format string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.standing.Envelope, j.standing.Format = envelope, format
}

// atEnd notes whether all was read.
func (j *commitJournal) atEnd(end bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.end = end
}

// snapshot is the commit to make now, and the number of pending cuts that it notes.
func (j *commitJournal) snapshot() (commit topic.Commit, notes int) {
	reached, settled := j.member.Standing()
	waits := j.member.Waits()
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.standing
	n.Reached = max(n.Reached, settled)
	if len(j.cuts) == 0 {
		n.End = j.end
		n.Reached = max(n.Reached, reached) // all that was read is sent
	}

	if waits {
		n.Waits = j.intake.Now().Unix() / waitsBeat * waitsBeat
	}
	return n.commit(j.offset, j.cuts), len(j.pending)
}

// run commits until close. ctx ends a commit under way then.
func (j *commitJournal) run(ctx context.Context) {
	defer close(j.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		closing := false
		timer.Reset(j.every())
		select {
		case <-j.kick:
		case <-timer.C:
		case <-j.closing:
			closing = true
		}

		if err := j.commitChanges(ctx); err != nil {
			j.refuse(err)
			return
		}
		if closing {
			return
		}
	}
}

// every is the interval of commits for changes without a cut.
func (j *commitJournal) every() time.Duration {
	if j.member.Behind() {
		return hastyEvery
	}
	return commitEvery
}

// commitChanges commits the changes. Its error is permanent.
func (j *commitJournal) commitChanges(ctx context.Context) error {
	for {
		commit, notes := j.snapshot()
		if commit == j.last {
			return nil
		}

		err := j.claim.Commit(ctx, commit)
		if err == nil {
			j.last = commit
			j.intake.Mended("commit")
			j.noted(notes)
			return nil
		}

		if ctx.Err() != nil || errors.Is(err, topic.ErrExpelled) {
			return err
		}
		j.intake.Trouble("commit", err) // if the metadata is too long: it is shorter with fewer outstanding cuts
		sleep.For(ctx, time.Second)
	}
}

func (j *commitJournal) noted(count int) {
	j.mu.Lock()
	pending := j.pending[:count]
	j.pending = j.pending[count:]
	j.mu.Unlock()
	for _, c := range pending {
		c.SetNoted(nil)
	}
}

// refuse drops the pending cuts and all later ones.
func (j *commitJournal) refuse(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fault = err
	for _, c := range j.pending {
		c.SetNoted(err)
	}
	j.pending = nil
}

// drop forgets the last cuts, which were never sent: their records are read again.
func (j *commitJournal) drop(count int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cuts = j.cuts[:max(0, len(j.cuts)-count)]
	j.end = j.end && count == 0
}

// close makes the last commit and ends the goroutine.
func (j *commitJournal) close() {
	close(j.closing)
	<-j.ended
}

func (s recordID) append(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(s.Offset)), uint64(s.Sum))
}

// readRecordID reads what append wrote, and returns what stands behind it.
func readRecordID(b []byte) (s recordID, rest []byte, ok bool) {
	if len(b) == 0 {
		return recordID{}, nil, false
	}
	r := varint.Reader{Left: b}
	s = recordID{int64(r.Unsigned()), uint32(r.Unsigned())}
	return s, r.Left, !r.Failed
}
