package aggregator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/internal/store"
	"weir/internal/store/disk"
	"weir/internal/topic"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

func onDisk(t *testing.T) store.Store {
	t.Helper()
	cold, err := disk.Open(t.Context(), disk.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cold.Close() })
	return cold
}

// hits writes a cut of hits of one key.
func (l *lab) hits(key string, count int) {
	l.t.Helper()
	l.send("s", "few", func(w *hit.Writer) {
		for n := range count {
			w.Add(0, []byte(key), l.newest().UnixMilli()+int64(n), 1)
		}
	})
}

func (l *lab) unblock(key string) {
	l.t.Helper()
	l.send("enforcer", "few", func(w *hit.Writer) { w.Unblock(0, []byte(key), l.newest().UnixMilli(), "order") })
}

// crowd pushes all windows out of the hot set, and has them written.
func (l *lab) crowd(p *partition) {
	l.t.Helper()
	for n := range 3 * windows.SmallestSize {
		l.hits(fmt.Sprint("198.51.100.", n), 1)
	}
	for range 20 {
		l.turn(p)
	}
	if p.windows.Has("few/192.0.2.1") || p.windows.Dirty() > 0 {
		l.t.Fatal("the key is not evicted and written")
	}
}

func (l *lab) want(name string, is func(*blocklist.Entry) bool) {
	l.t.Helper()
	if e := l.said()[name]; e == nil || !is(e) {
		l.t.Errorf("the list says %+v of %s", e, name)
	}
}

func TestABreakingKeyEvictedThenKilledBeforeItsEntryWasAcknowledged(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	p := l.takes()
	l.settle(p) // an owner's first walk would have the key in memory again
	l.save(p)   // the next checkpoint is of all that follows
	l.hits("192.0.2.1", 5)
	l.crowd(p)
	if checkpointOf(p).Offset > 0 {
		t.Fatalf("the checkpoint is at %d, behind a verdict that nobody has acknowledged", checkpointOf(p).Offset)
	}
	l.list.lose(0)
	l.events.lose(0)
	l.start(labRules)
	l.settle(l.takes())
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended == 0 && e.Count == 5 })
	if len(l.events.arrived) == 0 {
		t.Error("no event has arrived")
	}
}

func TestAnUnblockedKeyStaysUnblocked(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.settle(p)
	l.unblock("192.0.2.1")
	l.crowd(p)
	l.list.lose(0)
	l.events.lose(0)
	l.start(labRules)
	next := l.takes()
	l.settle(next)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended != 0 })
	l.hits("192.0.2.1", 4)
	l.settle(next)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended != 0 })
	l.hits("192.0.2.1", 1)
	l.settle(next)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended == 0 && e.Level == 1 })
}

func TestAPausedOwnerThatWakesWritesNothing(t *testing.T) {
	cold := newMemoryStore()
	l := newLab(t, 1, cold)
	paused := l.takes()
	l.hits("192.0.2.1", 3)
	l.settle(paused)
	next := l.takes()
	l.hits("192.0.2.1", 2)
	l.settle(next)
	before := cold.copyOf(0)
	l.now = l.now.Add(time.Minute)
	err := error(nil)
	for range 20 {
		if err = paused.turn(t.Context()); err != nil {
			break
		}
	}
	if !errors.Is(err, store.ErrFenced) {
		t.Errorf("the paused owner is told %v", err)
	}
	if cold.part(0).fence != before.fence || fmt.Sprint(cold.part(0).spaces) != fmt.Sprint(before.spaces) {
		t.Error("the paused owner has written")
	}
	l.list.deliver(len(l.list.waiting)) // what it sent comes late
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 5 })
}

func TestALateRecordOfAnotherIsHealed(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.settle(p)
	late := l.list.arrived[0]
	l.unblock("192.0.2.1")
	l.settle(p)
	l.list.arrived = append(l.list.arrived, late)
	e := l.entry(late.Key, late.Value)
	l.late(p, string(late.Key), e)
	l.settle(p)
	last := l.list.arrived[len(l.list.arrived)-1]
	if e := l.entry(last.Key, last.Value); e == nil || e.Ended == 0 {
		t.Errorf("the last record is %+v", e)
	}
}

func TestAHitAheadOfTimeIsJudgedAlikeAfterACrash(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.send("s", "few", func(w *hit.Writer) {
		for n := range 6 {
			w.Add(0, []byte("192.0.2.1"), l.newest().UnixMilli()+10_001+int64(n), 1)
		}
	})
	l.turn(p)
	l.kill()
	l.now = l.now.AddDate(10, 0, 0) // by now they are not ahead of anything
	next := l.takes()
	l.settle(next)
	if e := l.said()["few/192.0.2.1"]; e != nil || next.counter.reached != 0 {
		t.Errorf("hits ahead of their collector's clock count: %+v, %d", e, next.counter.reached)
	}
}

// The broker's directory is deleted while the disk store stays: a new log begins, and nothing is counted twice.
func TestTheLogIsAnother(t *testing.T) {
	for name, short := range map[string]bool{"ends before": true, "has another record": false} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, onDisk(t))
			p := l.takes()
			l.hits("192.0.2.1", 3)
			for range 5 {
				l.hits("192.0.2.9", 1)
			}
			l.settle(p)
			generation, sent := checkpointOf(p).Generation, l.records[0].Value
			l.start(labRules)
			l.records = nil
			l.append(sent) // again, though it was counted
			if !short {
				for range 9 {
					l.hits("192.0.2.8", 1)
				}
			}
			next := l.takes()
			l.settle(next)
			if checkpointOf(next).Generation <= generation {
				t.Errorf("generation %d after %d", checkpointOf(next).Generation, generation)
			}
			l.hits("192.0.2.1", 1)
			l.settle(next)
			if e := l.said()["few/192.0.2.1"]; e != nil {
				t.Errorf("a batch was counted twice: %+v", e)
			}
		})
	}
}

func TestALogThatBeginsLaterLostHits(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.hits("192.0.2.1", 1)
	l.settle(p)
	for range 10 {
		l.hits("192.0.2.1", 1)
	}
	l.begins = 6
	l.now = l.newest()
	next := l.takes()
	l.settle(next)
	if text := next.shown.Load().Problem; !strings.Contains(text, "5 records were deleted before they were read") {
		t.Errorf("the problem is %q", text)
	}
	if next.position.At().Offset != 11 || checkpointOf(next).Generation != checkpointOf(p).Generation {
		t.Errorf("offset %d, generation %d", next.position.At().Offset, checkpointOf(next).Generation)
	}
}

// While the store is away hot keys go on, and others wait in their order.
func TestTheStoreIsAway(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.hits("192.0.2.1", 4)
	l.hits("192.0.2.2", 4)
	l.settle(p)
	for n := range 2 * windows.SmallestSize {
		l.hits(fmt.Sprint("198.51.100.", n), 1)
	}
	l.settle(p)
	l.hits("192.0.2.2", 0+1) // hot again, and blocked
	l.settle(p)
	l.store.away = true
	l.hits("192.0.2.1", 1)
	l.hits("198.51.100.31", 4)
	l.turn(p)
	if _, ok := l.waitingEntry("few/198.51.100.31"); !ok {
		t.Error("a hot key does not go on")
	}
	if _, ok := l.waitingEntry("few/192.0.2.1"); ok || p.windows.Waiting() != 1 {
		t.Errorf("a cold key is counted from zero, or does not wait: %d wait", p.windows.Waiting())
	}
	stored := checkpointOf(p).Offset
	for range 10 {
		l.turn(p)
	}
	l.store.away = false
	l.now = l.now.Add(time.Second)
	l.settle(p)
	if checkpointOf(p).Offset <= stored {
		t.Errorf("the checkpoint stays at %d", stored)
	}
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 5 })
}

func (l *lab) waitingEntry(name string) (*blocklist.Entry, bool) {
	for _, m := range l.list.waiting {
		if string(m.Key) == name {
			return l.entry(m.Key, m.Value), true
		}
	}
	return nil, false
}

func TestRulesChangeWhileHitsAreUnderWay(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.settle(p)
	reload := func(text string) {
		t.Helper()
		if err := l.agg.Reload(parseRules(t, text)); err != nil {
			t.Fatal(err)
		}
		l.turn(p)
		l.settle(p)
	}
	reload(strings.Replace(labRules, "name: few,", "name: few, mode: shadow,", 1))
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Mode == blocklist.Shadow && e.Ended == 0 })
	reload(labRules)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Mode == blocklist.Enforce && e.Ended == 0 })
	reload(strings.Replace(labRules, "few", "fewer", 1))
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended != 0 })
	l.hits("192.0.2.2", 5)
	l.settle(p)
	if e := l.said()["few/192.0.2.2"]; e != nil {
		t.Errorf("a rule that is gone decides: %+v", e)
	}
	reload(strings.Replace(labRules, "4/10s", "2/10s", 1))
	l.hits("192.0.2.3", 3)
	l.settle(p)
	l.want("few/192.0.2.3", func(e *blocklist.Entry) bool { return e.Limit == "2/10s" && e.Count == 3 })
}

// A process that ends soon after a start in shadow mode has not gone through the list. The next one enforces what it has
// published all the same, whenever the first one ended.
func TestModesChangeForAShortTime(t *testing.T) {
	for turns := 1; turns <= 8; turns++ {
		l := newLab(t, 1, newMemoryStore())
		l.hits("192.0.2.1", 5)
		l.settle(l.takes())
		l.start(strings.Replace(labRules, "name: few,", "name: few, mode: shadow,", 1))
		p := l.takes()
		l.hits("192.0.2.2", 5)
		for range turns {
			l.turn(p)
			l.list.deliver(len(l.list.waiting))
			l.events.deliver(len(l.events.waiting))
		}
		p.finish()
		l.start(labRules)
		l.settle(l.takes())
		for _, name := range []string{"few/192.0.2.1", "few/192.0.2.2"} {
			l.want(name, func(e *blocklist.Entry) bool { return e.Mode == blocklist.Enforce && e.Ended == 0 })
		}
	}
}

func TestHitsOfAnUnknownRuleWaitForIt(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	more := strings.Replace(labRules, "rules:", "rules:\n  - {name: new, key: ip, limits: [1/min]}", 1)
	p.rules.reread = func() {
		if err := l.agg.Reload(parseRules(t, more)); err != nil {
			t.Error(err)
		}
	}
	l.send("s", "new", func(w *hit.Writer) { w.Add(0, []byte("192.0.2.1"), l.newest().UnixMilli(), 2) })
	l.settle(p)
	l.want("new/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 2 })
}

func TestANewerVersionStopsThePartition(t *testing.T) {
	later := func(version byte) []byte { // with the checksum that later versions end with
		return binary.LittleEndian.AppendUint64([]byte{version}, xxhash.Sum64([]byte{version}))
	}
	newer := map[string]func(*lab){
		"a batch":    func(l *lab) { l.append(later(hit.VersionValues + 1)) },
		"a window":   func(l *lab) { l.hits("192.0.2.1", 1); l.put(store.Windows, "few/192.0.2.1", later(99)) },
		"checkpoint": func(l *lab) { l.put(store.Notes, windows.CheckpointKey, later(2)) },
		"the note":   func(l *lab) { l.put(store.Notes, publishing.NoteKey, later(2)) },
	}
	for name, write := range newer {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, newMemoryStore())
			write(l)
			p := l.partition()
			err := p.take(t.Context())
			if err == nil {
				err = p.turn(t.Context())
			}
			if !ends(err) || !strings.Contains(err.Error(), "newer version") {
				t.Error(err)
			}
		})
	}
}

func (l *lab) put(space store.Space, key string, value []byte) {
	l.store.Store.(*memoryStore).part(0).spaces[space][key] = value
}

func TestAnotherNumberOfPartitionsIsRefused(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	config := l.agg.config
	config.Store, config.Partitions = l.store.Store, 2
	if _, err := Open(t.Context(), config); !errors.Is(err, ErrPartitions) {
		t.Error(err)
	}
}

// A verdict whose block is over is counted and remembered, and not published.
func TestABlockThatIsOverIsNotPublished(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.now = l.newest().AddDate(1, 0, 0)
	l.hits("192.0.2.1", 5)
	l.settle(p)
	if e := l.said()["few/192.0.2.1"]; e != nil {
		t.Errorf("published: %+v", e)
	}
	s, err := p.keyStatus("few", "192.0.2.1", nil)
	if err != nil || s.Block == nil || s.Block.Level != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestTheSweepDeletesClearWindows(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.hits("192.0.2.1", 1)
	l.crowd(p)
	for range 2000 {
		l.append([]byte{hit.Version})
	}
	l.hits("192.0.2.2", 1)
	l.settle(p)
	sweep := func() map[string][]byte {
		l.now = l.now.Add(10 * time.Minute)
		l.settle(p)
		for range 10 {
			l.turn(p)
		}
		return l.store.Store.(*memoryStore).part(0).spaces[store.Windows]
	}
	if windows := sweep(); windows["few/192.0.2.1"] == nil {
		t.Error("hits whose time is ahead of the clock on the wall make others old")
	}
	l.now = l.newest()
	windows := sweep()
	if windows["few/192.0.2.1"] != nil || windows["few/192.0.2.2"] == nil {
		t.Errorf("%d windows are left", len(windows))
	}
}

// The list's topic was made again: everything live is published again, and marks carry the new list's id.
func TestTheListIsAnother(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.hits("192.0.2.1", 5)
	l.settle(p)
	l.list.arrived = nil
	ctx, cancel := context.WithCancel(t.Context())
	l.fetches = []func() error{
		func() error { return topic.ErrPastEnd }, // as of a topic that was made again
		func() error { cancel(); return ctx.Err() },
	}
	l.agg.list.Follow(ctx)
	l.turn(p)
	l.now = l.now.Add(10 * time.Second)
	l.settle(p)
	l.turn(p)
	l.settle(p)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 5 })
	last := l.list.arrived[len(l.list.arrived)-1]
	record, err := blocklist.DecodeRecord(last.Key, last.Value)
	if err != nil || record.Mark == nil || record.Mark.List != l.agg.list.ID() || record.Mark.List.Epoch == 0 || record.Mark.Offset != p.position.At().Offset {
		t.Errorf("the last record is %+v, %v", record.Mark, err)
	}
}

// The list's topic is another when a partition is taken, and longer than the one before: everything live is published
// again on a list of a greater epoch. So it is where a program has written the store that noted no topic. The same topic
// is the same list.
func TestTheListIsInAnotherTopic(t *testing.T) {
	for name, c := range map[string]struct {
		move    func(l *lab)
		another bool
	}{
		"other brokers":     {func(l *lab) { l.listTopic = "other/blocklist/7" }, true},
		"made again":        {func(l *lab) { l.listTopic = "lab/blocklist/2" }, true},
		"an old store":      {func(l *lab) { l.put(store.Notes, publishing.TopicKey, nil) }, true},
		"the same":          {func(*lab) {}, false},
		"brokers forget it": {func(l *lab) { l.listTopic = "lab/blocklist/" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, newMemoryStore())
			p := l.takes()
			l.hits("192.0.2.1", 5)
			l.settle(p)
			l.now = l.now.Add(10 * time.Second)
			l.turn(p)
			l.settle(p)
			before := l.agg.list.ID()
			c.move(l)
			if c.another {
				l.list.arrived = make([]topic.Message, 3*len(l.list.arrived))
				for i := range l.list.arrived {
					l.list.arrived[i] = topic.Message{Key: []byte("per-ip/another"), Value: []byte{200}}
				}
			}
			others := len(l.list.arrived)

			for range 2 { // a second time it is the same
				l.start(labRules)
				p = l.takes()
				l.settle(p)
				l.now = l.now.Add(10 * time.Second)
				l.turn(p)
				l.settle(p)
			}
			last := l.list.arrived[len(l.list.arrived)-1]
			mark, err := blocklist.DecodeRecord(last.Key, last.Value)
			if err != nil || mark.Mark == nil || (mark.Mark.List != before) != c.another {
				t.Fatalf("the last record is %+v, %v; before it was of %v", mark.Mark, err, before)
			}
			var epochs []int64
			var entries int
			for _, m := range l.list.arrived[others:] {
				switch record, err := blocklist.DecodeRecord(m.Key, m.Value); {
				case err != nil:
					t.Fatal(err)
				case record.Mark != nil && (len(epochs) == 0 || epochs[len(epochs)-1] != record.Mark.List.Epoch):
					epochs = append(epochs, record.Mark.List.Epoch)
				case record.Entry != nil && record.Entry.Key == "192.0.2.1":
					entries++
				}
			}
			if len(epochs) != 1 || (entries > 0) != c.another || c.another && mark.Mark.Since < int64(others) {
				t.Errorf("lists of the epochs %v, %d entries, live ones from %d on; %d records were there", epochs, entries, mark.Mark.Since, others)
			}
		})
	}
}

// The embedded broker's topics keep their identity: after a restart the list is the same.
func TestAfterARestartTheListIsTheSame(t *testing.T) {
	s := newSite(t)
	s.begin()
	s.hits("a", "per-ip", "203.0.113.9", times(6)...)
	s.listed("203.0.113.9", func(e *blocklist.Entry) bool { return e.Ended == 0 })
	s.drained()
	before := s.agg.Status().List
	s.end()
	s.closeBroker()
	s.openBroker()
	s.begin()
	s.hits("a", "per-ip", "203.0.113.8", times(6)...)
	s.listed("203.0.113.8", func(e *blocklist.Entry) bool { return e.Ended == 0 })
	if got := s.agg.Status().List; got != before {
		t.Errorf("the list is %s, and was %s", got, before)
	}
}

// The watermarks of a new store are later than those that its topic has of the store before. A store keeps its list, also
// one that was agreed on as a name.
func TestANewStoreBeginsALaterList(t *testing.T) {
	open := func(cold store.Store, at time.Time) blocklist.ListID {
		config := newLab(t, 1, newMemoryStore()).agg.config
		config.Store, config.Now = cold, func() time.Time { return at }
		a, err := Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		return a.list.ID()
	}
	now := time.Now()
	first, second, old := newMemoryStore(), newMemoryStore(), newMemoryStore()
	before := open(first, now)
	if again := open(first, now.Add(time.Hour)); again != before {
		t.Errorf("the list of one store is %v and %v", before, again)
	}
	if _, err := old.Agree(t.Context(), "list", []byte("0a09c9beff1b0a15")); err != nil {
		t.Fatal(err)
	}
	if got := open(old, now); got != (blocklist.ListID{Name: "0a09c9beff1b0a15"}) {
		t.Errorf("the list of an old store is %v", got)
	}
	if after := open(second, now.Add(time.Hour)); after.Compare(before) <= 0 {
		t.Errorf("the list of a new store is %v, before it was %v", after, before)
	}
}

func TestTheBrokersDirectoryIsDeleted(t *testing.T) {
	s := newSite(t)
	s.begin()
	s.hits("a", "per-ip", "203.0.113.7", times(3)...)
	s.hits("a", "per-ip", "203.0.113.9", times(6)...)
	s.listed("203.0.113.9", func(e *blocklist.Entry) bool { return e.Ended == 0 })
	s.drained()
	s.end()
	s.closeBroker()
	if err := os.RemoveAll(s.folder); err != nil {
		t.Fatal(err)
	}
	s.openBroker()
	s.begin()
	s.listed("203.0.113.9", func(e *blocklist.Entry) bool { return e.Ended == 0 })
	s.hits("a", "per-ip", "203.0.113.7", times(3)...)
	s.listed("203.0.113.7", func(e *blocklist.Entry) bool { return e.Count == 6 })
}

// While the list takes nothing and no checkpoint is written, what changes is written all the same.
func TestWindowsAreWrittenWhileTheListTakesNothing(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	p := l.takes()
	l.hits("192.0.2.1", 5) // who is blocked
	for range 10 {
		l.turn(p) // nothing is delivered
	}
	before := checkpointOf(p).Offset
	l.hits("192.0.2.2", 1)
	for range 10 {
		l.turn(p)
	}
	values, _, err := l.store.Read(t.Context(), 0, store.Windows, [][]byte{[]byte("few/192.0.2.2")})
	if err != nil || values[0] == nil || checkpointOf(p).Offset != before {
		t.Fatalf("the window is not in the store: %v; the checkpoint is at %d", err, checkpointOf(p).Offset)
	}
	l.settle(p)
	if checkpointOf(p).Offset != p.position.At().Offset {
		t.Error("the checkpoint does not follow")
	}
}
