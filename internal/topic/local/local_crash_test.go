package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"

	"weir/internal/database"
	"weir/internal/topic"
	"weir/test/wait"
)

// TestMain lets the test binary be the process that TestKill kills.
func TestMain(m *testing.M) {
	if folder := os.Getenv("WEIR_TEST_LOG"); folder != "" {
		if err := appendForEver(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	wait.Together(8)
	os.Exit(m.Run())
}

var ctx = context.Background()

// A site is a log with two topics, to which one caller appends numbered steps: a record to each of two partitions, one
// to a compacted topic, and a note, all together.
type site struct {
	db  *database.DB
	log *Log

	hits, list *Appender
	unsynced   bool // its steps are
}

const listKeys = 50

func openSite(o database.Options) (*site, error) {
	o.SplitAt, o.MemoryBytes = SplitAt, 4<<20
	db, err := database.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	l, err := Open(ctx, Options{Database: db, RetainEvery: 20 * time.Millisecond, TailBytes: 1 << 20})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	err = l.EnsureTopics(ctx, topic.Topic{Name: "hits", Partitions: 2},
		topic.Topic{Name: "list", Partitions: 1, Settings: map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "20"}})
	s := &site{db: db, log: l, hits: l.NewAppender(topic.AppenderConfig{Topic: "hits", Partitions: 2}),
		list: l.NewAppender(topic.AppenderConfig{Topic: "list", Partitions: 1})}
	if err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (s *site) close(ctx context.Context) error {
	_ = s.hits.Close(ctx) // what was not written is looked for in the log
	_ = s.list.Close(ctx)
	s.log.Close()
	return s.db.Close()
}

func valueOf(n int) []byte { return fmt.Appendf(nil, "%d %s", n, strings.Repeat("x", n%3000)) }

func numberOf(value []byte) int {
	word, _, _ := bytes.Cut(value, []byte(" "))
	n, err := strconv.Atoi(string(word))
	if err != nil {
		return -1
	}
	return n
}

// step appends a step.
func (s *site) step(ctx context.Context, n int, done func(error)) error {
	entry := topic.Message{Key: fmt.Appendf(nil, "key %d", n%listKeys), Value: valueOf(n)}
	if n%7 == 0 {
		entry.Value = nil
	}
	together := s.log.Together
	if s.unsynced {
		together = s.log.TogetherUnsynced
	}
	return together(ctx, []Part{
		{s.hits, []topic.Message{{Value: valueOf(n)}, {Partition: 1, Value: valueOf(n)}}}, {s.list, []topic.Message{entry}},
	}, []topic.Note{{Key: []byte("step"), Value: valueOf(n)}}, done)
}

// check returns the last step that is there. All of a step is there or nothing, without a gap, and at least up to the
// answered one. Steps may be there twice, if faults has made the log write again.
func (s *site) check(t *testing.T, answered int, faults bool) (last int) {
	t.Helper()
	notes, err := s.log.Notes(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	last = -1
	if len(notes) > 0 {
		last = numberOf(notes[0].Value)
	}
	if last < answered {
		t.Fatalf("step %d was answered, and the note says %d", answered, last)
	}

	for partition := range 2 {
		next := 0
		for _, r := range s.read(t, "hits", partition) {
			n := numberOf(r.Value)
			if n == next && bytes.Equal(r.Value, valueOf(n)) {
				next++
			} else if !faults || n > next || n < 0 {
				t.Fatalf("partition %d has step %d at offset %d, where %d was expected", partition, n, r.Offset, next)
			}
		}
		if next != last+1 {
			t.Fatalf("partition %d ends with step %d, and the note says %d", partition, next-1, last)
		}
	}

	found := map[string]int{}
	for _, r := range s.read(t, "list", 0) {
		if found[string(r.Key)] = numberOf(r.Value); r.Value == nil {
			delete(found, string(r.Key))
		}
	}
	for n := max(0, last-listKeys+1); n <= last; n++ {
		key := fmt.Sprintf("key %d", n%listKeys)
		if got, ok := found[key]; ok != (n%7 != 0) || ok && got != n {
			t.Fatalf("%s has step %d (%v), and %d was the last", key, got, ok, n)
		}
	}
	return last
}

func (s *site) read(t *testing.T, name string, partition int) (records []topic.Record) {
	t.Helper()
	span, err := s.log.PartitionSpan(ctx, name, partition)
	if err != nil {
		t.Fatal(err)
	}
	r := s.log.Reader(name, partition, span.Start, 100_000)
	for r.Next() < span.End {
		got, err := r.Fetch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range got {
			record.Key, record.Value = bytes.Clone(record.Key), bytes.Clone(record.Value)
			records = append(records, record)
		}
	}
	return records
}

// appendForEver is the process that TestKill kills: it goes on behind the last step, and prints every one that is
// answered.
func appendForEver(folder string) error {
	s, err := openSite(database.Options{Folder: folder})
	if err != nil {
		return err
	}
	notes, err := s.log.Notes(ctx, nil)
	if err != nil {
		return err
	}
	n := 0
	if len(notes) > 0 {
		n = numberOf(notes[0].Value) + 1
	}
	for {
		step := n
		if err := s.step(ctx, step, func(error) { fmt.Println(step) }); err != nil {
			return err
		}
		n++
		for s.hits.Held() > 300_000 {
			time.Sleep(time.Millisecond)
		}
	}
}

// A kill at any moment loses nothing that was answered, and leaves no half of a step.
func TestKill(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	kills := 8
	if n, err := strconv.Atoi(os.Getenv("WEIR_CRASH_KILLS")); err == nil {
		kills = n
	}
	last := -1
	for range kills {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "WEIR_TEST_LOG="+folder)
		child.Stderr = os.Stderr
		output, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}

		answered, begun := last, make(chan struct{})
		var lines sync.WaitGroup
		lines.Go(func() {
			first := sync.OnceFunc(func() { close(begun) })
			defer first()
			for in := bufio.NewScanner(output); in.Scan(); first() {
				_, _ = fmt.Sscan(in.Text(), &answered)
			}
		})
		<-begun
		time.Sleep(time.Duration(rand.IntN(300_000)) * time.Microsecond)
		_ = child.Process.Kill()
		lines.Wait()
		_ = child.Wait()

		s, err := openSite(database.Options{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		if now := s.check(t, answered, false); now <= last {
			t.Fatalf("step %d after %d", now, last)
		} else {
			last = now
		}
		if err := s.close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d steps, %d kills", last+1, kills)
}

// A loss of power loses nothing that was answered, or that was answered and synced. Whatever the disk kept of what was not
// synced, no half of a step is there.
func TestALossOfPower(t *testing.T) {
	for _, unsynced := range []bool{false, true} {
		t.Run(fmt.Sprintf("unsynced=%v", unsynced), func(t *testing.T) {
			t.Parallel()
			losePower(t, unsynced)
		})
	}
}

func losePower(t *testing.T, unsynced bool) {
	fs := vfs.NewCrashableMem()
	s, err := openSite(database.Options{Folder: "weir", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	s.unsynced = unsynced
	var answered atomic.Int64
	answered.Store(-1)
	random := rand.New(rand.NewPCG(1, 2))
	lost, synced := 0, -1
	for n := range 400 {
		if err := s.step(ctx, n, func(err error) {
			if err == nil {
				answered.Store(int64(n))
			}
		}); err != nil {
			t.Fatal(err)
		}
		if n%8 != 0 {
			continue
		}
		at := int(answered.Load())
		if unsynced && n%16 == 0 {
			if err := s.log.Sync(ctx); err != nil {
				t.Fatal(err)
			}
			synced = at
		}
		if unsynced {
			at = synced
		}
		after, err := openSite(database.Options{Folder: "weir", FS: fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: random.IntN(101), RNG: random})})
		if err != nil {
			t.Fatal(err)
		}
		lost += n - after.check(t, at, false)
		if err := after.close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if lost == 0 {
		t.Error("no power was ever lost")
	}
	if err := s.close(ctx); err != nil {
		t.Error(err)
	}
}

// faulty is a disk on which writing fails from its n-th operation on, until it is repaired.
type faulty struct {
	left   atomic.Int64
	mended atomic.Bool
}

func (f *faulty) String() string { return "faulty" }

func (f *faulty) MaybeError(op errorfs.Op) error {
	if f.mended.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || f.left.Add(-1) >= 0 {
		return nil
	}
	return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
}

// A disk that is full at any moment makes messages wait. When there is room again all are written, also those that were
// answered and not synced, and a reader that has seen them goes on behind them.
func TestAFullDisk(t *testing.T) {
	for n := int64(0); n < 100; n += 1 + n/2 {
		for _, unsynced := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/unsynced=%v", n, unsynced), func(t *testing.T) {
				t.Parallel()
				fillDisk(t, n, unsynced)
			})
		}
	}
}

func fillDisk(t *testing.T, n int64, unsynced bool) {
	disk := &faulty{}
	disk.mended.Store(true)
	s, err := openSite(database.Options{Folder: "weir", FS: errorfs.Wrap(vfs.NewMem(), disk)})
	if err != nil {
		t.Fatal(err)
	}
	s.unsynced = unsynced
	follower := follow(t, s.log)
	r := s.log.Reader("hits", 0, 0, 0)
	disk.left.Store(n)
	disk.mended.Store(false)
	var answered atomic.Int64
	steps := 0
	for ; steps < 300 || s.db.Fault() == nil; steps++ {
		if err := s.step(ctx, steps, func(err error) {
			if err != nil {
				t.Error(err)
			}
			answered.Add(1)
		}); err != nil {
			t.Fatal(err)
		}
		if steps%10 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if _, err := r.Fetch(ctx); err != nil && !errors.Is(err, topic.ErrUnreachable) {
		t.Errorf("reading meanwhile: %v", err)
	}
	disk.mended.Store(true)
	wait.Until(t, "all are written, and the topics are read again", func() bool {
		_, err := s.log.Notes(ctx, nil)
		return answered.Load() == int64(steps) && err == nil
	})
	if last := s.check(t, steps-1, true); last != steps-1 {
		t.Errorf("the last step is %d", last)
	}
	follower(steps - 1)
	if err := s.close(ctx); err != nil {
		t.Error(err)
	}
}

// What readers have seen is on the disk again before others write there: else their place in a topic could be on it
// alone, after a kill.
func TestWhatWasSeenIsWrittenFirst(t *testing.T) {
	disk := &faulty{}
	disk.mended.Store(true)
	s, err := openSite(database.Options{Folder: "weir", FS: errorfs.Wrap(vfs.NewMem(), disk)})
	if err != nil {
		t.Fatal(err)
	}
	s.unsynced = true
	answered := make(chan error, 1)
	if err := s.step(ctx, 0, func(err error) { answered <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	disk.mended.Store(false)
	wait.Until(t, "the disk fails", func() bool {
		_ = s.db.Sync(ctx)
		return s.db.Fault() != nil
	})
	disk.mended.Store(true)
	wait.Until(t, "others use the disk again", func() bool {
		there, err := database.Do(ctx, s.db, func(db *pebble.DB) (bool, error) {
			iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{ours, aRecord}, UpperBound: []byte{ours, aRecord + 1}})
			if err != nil {
				return false, err
			}
			there := iterator.First()
			return there, iterator.Close()
		})
		if err == nil && !there {
			t.Fatal("others use the disk, and a record that was seen is not on it")
		}
		return err == nil
	})
	if err := s.close(ctx); err != nil {
		t.Error(err)
	}
}

// Writes are done once more only behind the last one that is there: that may be one whose call failed, and what it has
// replaced does not come back. They may be large.
func TestOnlyLostWritesAreWrittenAgain(t *testing.T) {
	open := func(steps ...int) *site {
		s, err := openSite(database.Options{Folder: "weir", FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.close(ctx) })
		s.unsynced = true
		for _, n := range steps {
			done := make(chan error, 1)
			if err := s.step(ctx, n, func(err error) { done <- err }); err != nil || <-done != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	list := func(s *site) (keys []string) {
		db, err := database.Do(ctx, s.db, func(db *pebble.DB) (*pebble.DB, error) { return db, nil })
		if err != nil {
			t.Fatal(err)
		}
		iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{ours, aRecord}, UpperBound: []byte{ours, anEnd}})
		if err != nil {
			t.Fatal(err)
		}
		for ok := iterator.First(); ok; ok = iterator.Next() {
			keys = append(keys, string(iterator.Key()))
		}
		if err := iterator.Close(); err != nil {
			t.Fatal(err)
		}
		return keys
	}
	write := func(s *site, unsynced []unsyncedWrite) {
		if _, err := database.Do(ctx, s.db, func(db *pebble.DB) (any, error) { return nil, again(db, unsynced) }); err != nil {
			t.Fatal(err)
		}
	}

	s := open(1, 1+listKeys)
	want := list(s)
	if write(s, s.log.unsynced[:1]); !slices.Equal(list(s), want) {
		t.Errorf("a record that was replaced is back:\n%q\n%q", list(s), want)
	}

	lost := open()
	done := make(chan error, 1)
	if err := s.log.TogetherUnsynced(ctx, []Part{{s.hits, []topic.Message{{Value: make([]byte, 400<<10)}}}}, nil, func(err error) { done <- err }); err != nil || <-done != nil {
		t.Fatal(err)
	}
	if write(lost, s.log.unsynced); !slices.Equal(list(lost), list(s)) {
		t.Errorf("%q\n%q", list(lost), list(s))
	}
}

// follow has a reader follow a partition. It returns a function that waits until the reader has seen a step.
func follow(t *testing.T, l *Log) func(last int) {
	var seen atomic.Int64
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for r := l.Reader("hits", 0, 0, 0); ctx.Err() == nil; {
			records, err := r.Fetch(ctx)
			if err != nil && ctx.Err() == nil && !errors.Is(err, topic.ErrUnreachable) {
				t.Errorf("a reader that follows: %v", err)
				return
			}
			for _, record := range records {
				if n := int64(numberOf(record.Value)); n > seen.Load()+1 {
					t.Errorf("step %d follows on %d", n, seen.Load())
				} else {
					seen.Store(n)
				}
			}
		}
	})
	return func(last int) {
		wait.Until(t, "the reader has seen the last step", func() bool { return seen.Load() == int64(last) })
		stop()
		running.Wait()
	}
}

// hanging is a disk whose writing calls do not return while it hangs.
type hanging struct {
	mu    sync.Mutex
	hangs chan struct{}
}

func (h *hanging) String() string { return "hanging" }

func (h *hanging) MaybeError(op errorfs.Op) error {
	h.mu.Lock()
	hangs := h.hangs
	h.mu.Unlock()
	if hangs != nil && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		<-hangs
	}
	return nil
}

// An appender can be closed while the disk hangs, and the others go on when it does not hang any more.
func TestADiskThatHangs(t *testing.T) {
	disk := &hanging{}
	s, err := openSite(database.Options{Folder: "weir", FS: errorfs.Wrap(vfs.NewMem(), disk)})
	if err != nil {
		t.Fatal(err)
	}
	disk.mu.Lock()
	disk.hangs = make(chan struct{})
	disk.mu.Unlock()

	other := s.log.NewAppender(topic.AppenderConfig{Topic: "hits", Partitions: 2})
	var answers atomic.Int64
	for range 10 {
		if err := other.Send(ctx, topic.Message{Value: []byte("0"), Done: func(_ int64, err error) {
			if !errors.Is(err, topic.ErrClosed) {
				t.Error(err)
			}
			answers.Add(1)
		}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	answered := make(chan error, 1)
	if err := s.hits.Send(ctx, topic.Message{Value: []byte("1"), Done: func(_ int64, err error) { answered <- err }}); err != nil {
		t.Fatal(err)
	}

	given, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := other.Close(given); !errors.Is(err, topic.ErrClosed) || answers.Load() != 10 || other.Held() != 0 {
		t.Errorf("%d of 10 were answered, %v", answers.Load(), err)
	}
	close(disk.hangs)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := s.close(ctx); err != nil {
		t.Error(err)
	}
}

// When the folder is deleted the topics are made again, empty, and what is appended afterwards is kept.
func TestAFolderThatIsDeleted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir() + "/store"
	s, err := openSite(database.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	for n := range 10 {
		if err := s.step(ctx, n, func(err error) { answered <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
	}
	r := s.log.Reader("hits", 0, 10, 0)
	before, err := r.Identity(ctx)
	if err != nil || before == "" {
		t.Fatalf("%q, %v", before, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a reader finds an empty topic", func() bool {
		_, err := r.Fetch(ctx)
		return errors.Is(err, topic.ErrPastEnd)
	})
	if r.Span() != (topic.Span{}) {
		t.Errorf("%v", r.Span())
	}
	made, err := r.Identity(ctx)
	if err != nil || made == "" || made.Is(before) {
		t.Errorf("the topic was %q and is %q, %v", before, made, err)
	}
	if err := s.step(ctx, 0, func(err error) { answered <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if err := s.close(ctx); err != nil {
		t.Error(err)
	}
	if s, err = openSite(database.Options{Folder: folder}); err != nil {
		t.Fatal(err)
	}
	if again, err := s.log.Reader("hits", 0, 0, 0).Identity(ctx); err != nil || again != made {
		t.Errorf("the topic was %q and is %q after a restart, %v", made, again, err)
	}
	if last := s.check(t, 0, false); last != 0 {
		t.Errorf("the last step is %d", last)
	}
	if err := s.close(ctx); err != nil {
		t.Error(err)
	}
}

// Everything is there after a restart; Close ends all goroutines.
func TestRestart(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	folder := t.TempDir()
	s, err := openSite(database.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		if err := s.step(ctx, n, nil); err != nil {
			t.Fatal(err)
		}
	}
	member, leave := context.WithCancel(ctx)
	err = s.log.RunGroup(member, topic.Group{Name: "g", Topics: map[string]int{"hits": 2}}, func(ctx context.Context, claim *topic.Claim) error {
		if claim.Partition == 0 {
			<-ctx.Done()
			return nil
		}
		defer leave()
		return claim.Commit(ctx, topic.Commit{Offset: 60, Metadata: "m"})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(ctx); err != nil {
		t.Fatal(err)
	}

	if s, err = openSite(database.Options{Folder: folder}); err != nil {
		t.Fatal(err)
	}
	if last := s.check(t, 99, false); last != 99 {
		t.Errorf("the last step is %d", last)
	}
	if commits, err := s.log.Committed(ctx, "g", "hits"); err != nil || commits[1] != (topic.Commit{Offset: 60, Metadata: "m"}) || commits[0].Offset != -1 {
		t.Errorf("%v, %v", commits, err)
	}
	if err := s.close(ctx); err != nil {
		t.Fatal(err)
	}
}
