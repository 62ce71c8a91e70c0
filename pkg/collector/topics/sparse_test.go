package topics

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/kafka"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/test/sink"
	"weir/test/wait"
)

// A sparseBench is three collectors of one group, each with a third of a backlog whose days have few lines. They read
// as soon as their gates are opened, up to the middle of the backlog at first.
type sparseBench struct {
	*bench
	log    backlog
	book   *sink.Textbook
	all    []*running
	away   []*flaky // for each
	begin  gates
	middle gates // for each
}

func newSparseBench(t *testing.T, config kafka.Config) *sparseBench {
	b := &sparseBench{bench: newBench(t, config, 8), log: generatedBacklog(t, 20)}
	b.book = sink.NewTextbook(t, b.sink)
	b.make()
	b.fill(b.log)
	b.opened = func(c *running) {
		b.begin.shut(c)
		b.middle.shut(c)
		b.middle[len(b.middle)-1].Reach(time.Date(2026, 3, 13, 0, 0, 0, 0, time.UTC).UnixMilli())
	}
	for range 3 {
		away := &flaky{}
		b.away = append(b.away, away)
		was := b.config
		b.config.Dial = away.Dial
		b.all = append(b.all, b.start(b.sink))
		b.config = was
	}
	wait.Until(t, "three to share the topic", func() bool { return slices.Equal(b.owned(), []int{2, 3, 3}) })
	b.begin.open()
	return b
}

// owned returns how many partitions the collectors read, sorted.
func (b *sparseBench) owned() (counts []int) {
	for _, c := range b.all {
		counts = append(counts, c.owns())
	}
	slices.Sort(counts)
	return counts
}

// alone waits until one of the collectors reads all partitions, and returns which one.
func (b *sparseBench) alone(t *testing.T) int {
	t.Helper()
	only := func() int { return slices.IndexFunc(b.all, func(c *running) bool { return c.owns() == 8 }) }
	wait.Until(t, "one to read all partitions", func() bool { return only() >= 0 && b.owned()[len(b.all)-2] == 0 })
	t.Logf("%d of %d lines are read when one collector has all partitions", b.book.Count(), len(b.log.lines))
	return only()
}

// finish opens the gates, and compares the hits with the backlog when all are there.
func (b *sparseBench) finish(t *testing.T) {
	t.Helper()
	b.middle.open()
	readUntil(t, b.book, len(b.log.lines))
	b.log.compare(t, b.book)
}

// Three collectors find a backlog sparse. One of them gets all partitions and reads it; all share them again after that.
func TestASparseBacklogIsReadByOne(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newSparseBench(t, config)
		b.alone(t)
		b.finish(t)
		wait.Until(t, "them to share the partitions again", func() bool { return slices.Equal(b.owned(), []int{2, 3, 3}) })
	})
}

// The one that reads the sparse backlog loses its connections in the middle of it, and ends. One of the others gets all
// partitions and makes its outstanding cuts again: every line counts once, in its place.
func TestASparseBacklogWhoseReaderIsKilled(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newSparseBench(t, config)
		killed := b.alone(t)
		wait.Until(t, "it to wait in the middle", func() bool { return b.book.Count() > len(b.log.lines)*2/5 })
		b.away[killed].set(true)
		b.all[killed].stop()
		b.all = slices.Delete(b.all, killed, killed+1)
		b.alone(t)
		b.finish(t)
	})
}

// A collector wants all partitions while it reads a sparse backlog and for a moment after, but not for a short backlog,
// for a dense one, or without partitions.
func TestWhenACollectorWantsAllPartitions(t *testing.T) {
	const slack = int64(time.Minute / time.Millisecond)
	synctest.Test(t, func(t *testing.T) {
		k := newStill(t, time.Minute*10/9)
		wants := func(want bool, when string) {
			t.Helper()
			if got := k.wantsAlone(); got != want {
				t.Errorf("%s: it wants all partitions: %t", when, got)
			}
		}
		offset, reached := int64(0), time.Now().Add(-24*time.Hour).UnixMilli()
		var ours *partition
		read := func(slacks, records int64) { // of each slack
			for range slacks {
				offset, reached = offset+records, reached+slack
				k.counted(ours, offset, reached)
				ours.member.Reach(reached)
			}
		}
		k.compare("logs", 4)
		wants(false, "without a partition")
		ours = k.possess("logs", 0)
		wants(false, "before it has read anything")
		read(1, 100)
		wants(false, "before it has read enough")
		read(4, sparseRecords/4+1)
		wants(false, "of a dense backlog")
		ours.member.Idle(true)
		wants(false, "of none")
		ours.member.Idle(false)
		read(densitySlacks*4, sparseRecords/4-100)
		wants(false, "of lines that may be a single one")
		time.Sleep(farLasts)
		wants(true, "of a sparse one")
		read(densitySlacks*4, sparseRecords)
		wants(true, "of one that has just become dense")
		time.Sleep(aloneLasts)
		wants(false, "of one that is dense")
		read(densitySlacks*8, 1)
		wants(false, "of one that has just become sparse")
		time.Sleep(aloneLasts)
		wants(true, "of one that is sparse again")
		time.Sleep(aloneLasts)
		read(densitySlacks*8, sparseRecords/4*3/2)
		wants(true, "of one that is hardly dense")
		time.Sleep(pace.StallAfter)
		wants(false, "when it makes no progress")
		time.Sleep(aloneLasts)
		read(densitySlacks*8, 1)
		wants(true, "when it goes on")
		time.Sleep(aloneLasts)
		read(densitySlacks*8, sparseRecords/4*3/2)
		wants(true, "of one that is hardly dense, again")
		ours.member.Idle(true)
		time.Sleep(aloneLasts - time.Millisecond)
		wants(true, "just after the backlog")
		time.Sleep(time.Millisecond)
		wants(false, "after the backlog")
		ours.member.Idle(false)
		time.Sleep(aloneLasts)
		wants(false, "of one that is hardly dense, from the beginning")
		read(densitySlacks*8, 1)
		time.Sleep(farLasts)
		wants(true, "of one that is sparse")
		k.dispossess(ours)
		wants(false, "when another has the partition")
		ours = k.possess("logs", 0)
		reached = time.Now().UnixMilli() - (farBehind-1)*slack
		ours.member.Reach(reached - 8*slack)
		time.Sleep(aloneLasts)
		read(8, 1)
		wants(false, "of a short backlog")
		time.Sleep(farLasts)
		wants(false, "of a backlog that is still short")
	})
}

// newStill makes a source of the topic logs without a client.
func newStill(t *testing.T, late time.Duration) *source {
	t.Helper()
	c := pipeline.New(pipeline.Config{Late: late, Logger: testLogger(t), Pace: pace.New(testLogger(t), time.Now), Now: time.Now})
	in, err := c.NewIntake(pipeline.IntakeConfig{Name: "logs", Format: "combined"})
	if err != nil {
		t.Fatal(err)
	}
	made, err := New(in, Config{Group: "g", Topics: []string{"logs"}})
	if err != nil {
		t.Fatal(err)
	}
	return made.(*source)
}
