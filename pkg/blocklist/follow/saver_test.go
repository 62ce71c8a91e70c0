package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/pkg/blocklist"
	"weir/test/wait"
)

var errNoBroker = errors.New("no broker answers")

// restarted returns the source of a process that starts with a file while Kafka is away.
func restarted(t testing.TB, file string) *logSource {
	t.Helper()
	away := newPaper()
	away.fails = errNoBroker
	l := newSource(away, file)
	l.once(t.Context())
	return l
}

func keep(t testing.TB, l *logSource) {
	t.Helper()
	if err := l.Keep(); err != nil {
		t.Fatal(err)
	}
}

func order(id, value string) *blocklist.Order {
	return &blocklist.Order{ID: id, Kind: blocklist.OrderBlock, Scope: "ip", Value: value, From: at, Until: blocklist.Never, By: "ann", Why: "x"}
}

func ordered(t testing.TB, s *blocklist.Set, id, value string) {
	t.Helper()
	if err := s.Order(order(id, value), at); err != nil {
		t.Fatal(err)
	}
}

func orderRecord(t testing.TB, id, value string) (key, record []byte) {
	t.Helper()
	o := order(id, value)
	record, err := o.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return o.RecordKey(), record
}

// keptKeys are the entries of kept.
var keptKeys = []string{"1.1.1.1", "10.0.0.1", "2.2.2.0", "2.2.2.1", "2.2.2.2", "2.2.2.3", "2.2.2.4"}

func orders(s *blocklist.Set) (values []string) {
	for o := range s.Orders(at) {
		values = append(values, o.Value)
	}
	return values
}

// kept makes a snapshot with one entry, and changes: entries and an order that waits for Kafka.
func kept(t testing.TB) (l *logSource, p *paper, file string) {
	t.Helper()
	p, file = newPaper(), filepath.Join(t.TempDir(), "list")
	p.entry(t, "1.1.1.1", 1)
	p.marked(t, listA, 0)
	l = newSource(p, file)
	l.catchUp(t, p)
	keep(t, l)
	snapshot, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		p.entry(t, fmt.Sprintf("2.2.2.%d", n), 1)
		l.catchUp(t, p)
		keep(t, l)
	}
	ordered(t, l.config.Set, "o", "10.0.0.1")
	keep(t, l)
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, snapshot) {
		t.Fatal("the snapshot was written again", err)
	}
	return l, p, file
}

func TestActiveEntriesAreServedAfterAKill(t *testing.T) {
	l, p, file := kept(t)
	after := restarted(t, file)
	if got, want := after.config.Set.State(), l.config.Set.State(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	wantKeys(t, after.config.Set, keptKeys...)
	if got := orders(after.config.Set); !slices.Equal(got, []string{"10.0.0.1"}) || len(after.config.Set.Pending()) != 0 {
		t.Errorf("orders %v, %d wait", got, len(after.config.Set.Pending()))
	}
	// It goes on from there, and so does the next one.
	reads := newPaper()
	reads.records = slices.Clone(p.records)
	reads.add(orderRecord(t, "o", "10.0.0.1"))
	again := newSource(reads, file)
	again.catchUp(t, reads)
	reads.entry(t, "3.3.3.3", 1)
	again.catchUp(t, reads)
	keep(t, again)
	wantKeys(t, restarted(t, file).config.Set, append(slices.Clone(keptKeys), "3.3.3.3")...)
}

// When a kill cuts the log of changes off, the changes before the cut are served, and it is no error.
func TestALogOfChangesThatIsCutOff(t *testing.T) {
	_, _, file := kept(t)
	changes, err := os.ReadFile(file + ".changes")
	if err != nil {
		t.Fatal(err)
	}
	before := 0
	for n := range len(changes) + 1 {
		if err := os.WriteFile(file+".changes", changes[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		l := restarted(t, file)
		found := len(slices.Collect(l.config.Set.All(at)))
		if !l.config.Set.Whole() || found < before || found > 7 {
			t.Fatalf("of %d of %d bytes %d entries are served, of %d less %d", n, len(changes), found, n-1, before)
		}
		before = found
	}
	if before != 7 {
		t.Errorf("%d entries of 7", before)
	}
}

func TestALogOfChangesThatIsDamaged(t *testing.T) {
	_, _, file := kept(t)
	changes, err := os.ReadFile(file + ".changes")
	if err != nil {
		t.Fatal(err)
	}
	changes[len(changes)/2] ^= 1
	if err := os.WriteFile(file+".changes", changes, 0o600); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	set := blocklist.NewSet(blocklist.Limits{})
	NewFromLog(Config{Set: set, File: file, Logger: slog.New(slog.NewTextHandler(&text, nil))}, newPaper())
	if !blocked(set, "1.1.1.1") || blocked(set, "2.2.2.4") || !strings.Contains(text.String(), "not all changes") {
		t.Errorf("it logs %s", text.String())
	}
}

// A file with more than the list is not what was kept, and changes nothing.
func TestASnapshotWithMoreBehindIt(t *testing.T) {
	_, _, file := kept(t)
	list, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{0, 1, 100 << 10} {
		if err := os.WriteFile(file, append(slices.Clone(list), make([]byte, more)...), 0o600); err != nil {
			t.Fatal(err)
		}
		set := blocklist.NewSet(blocklist.Limits{})
		err := Load(file, set, at)
		if read := err == nil; read != (more == 0) || set.Whole() != read || blocked(set, "1.1.1.1") != read {
			t.Errorf("with %d bytes behind it: %v, complete: %v", more, err, set.Whole())
		}
	}
}

// A kill between a snapshot and the beginning of its log leaves the log of the snapshot before.
func TestALogOfAnOlderSnapshot(t *testing.T) {
	l, p, file := kept(t)
	changes, err := os.ReadFile(file + ".changes")
	if err != nil {
		t.Fatal(err)
	}
	p.add(blocklist.RecordKey("per-ip", "2.2.2.0"), nil)
	l.catchUp(t, p)
	if _, err := Save(file, l.config.Set, at); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".changes", changes, 0o600); err != nil {
		t.Fatal(err)
	}
	after := restarted(t, file)
	if got, want := after.config.Set.State(), l.config.Set.State(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if blocked(after.config.Set, "2.2.2.0") || !blocked(after.config.Set, "2.2.2.1") {
		t.Error("the list went back")
	}
}

// New records of the log apply while the log is read again and no list of it is complete; so they are on the disk too.
func TestAListAheadOfTheLogIsKept(t *testing.T) {
	l, p, file := kept(t)
	p.start, p.records = 100, nil // the broker has deleted what was there
	l.catchUp(t, p)
	p.entry(t, "4.4.4.4", 1)
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, append(slices.Clone(keptKeys), "4.4.4.4")...)
	wait.Until(t, "it is on the disk", func() bool {
		keep(t, l)
		return blocked(restarted(t, file).config.Set, "4.4.4.4")
	})
}

// A follower keeps the active list as long as it runs, without a call of Keep, and also after its files were deleted.
func TestAFollowerKeepsItsList(t *testing.T) {
	e := newEnforcer(t, wholeSet(t, listA, "1.1.1.1"))
	file := filepath.Join(t.TempDir(), "folder", "list")
	f := following(t, e, file)
	wait.Until(t, "the snapshot", same(f, e.set))
	add(t, e.set, "2.2.2.2")
	ordered(t, e.set, "o", "10.0.0.1")
	onDisk := func() bool {
		set := restarted(t, file).config.Set
		return blocked(set, "2.2.2.2") && slices.Equal(orders(set), []string{"10.0.0.1"})
	}
	wait.Until(t, "what changed is on the disk", onDisk)
	if err := os.Rename(filepath.Dir(file), filepath.Dir(file)+".old"); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it is on the disk again", onDisk)
}

// After a disk failed, writes are tried again, and then the files are complete.
func TestADiskThatFailsForAWhile(t *testing.T) {
	l, p, file := kept(t)
	folder := filepath.Dir(file)
	if err := errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	p.entry(t, "4.4.4.4", 1)
	l.catchUp(t, p)
	for range 3 {
		if err := l.Keep(); err == nil {
			t.Fatal("it was kept")
		}
	}
	if why := l.Status().Unsaved; !strings.Contains(why, "not a directory") {
		t.Errorf("the status says %q", why)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	keep(t, l)
	if why := l.Status().Unsaved; why != "" {
		t.Errorf("the status says %q", why)
	}
	wantKeys(t, restarted(t, file).config.Set, append(slices.Clone(keptKeys), "4.4.4.4")...)
}

// Orders that are given at the same time are all kept before their calls of Keep return.
func TestKeepingAtOnce(t *testing.T) {
	l, _, file := kept(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running, giving sync.WaitGroup
	running.Go(func() { l.saver.run(ctx) })
	for n := range 20 {
		giving.Go(func() {
			value := fmt.Sprintf("10.0.1.%d", n)
			ordered(t, l.config.Set, value, value)
			if err := l.Keep(); err != nil {
				t.Error(err)
			}
			copied := filepath.Join(t.TempDir(), "list")
			for _, name := range []string{"", ".changes"} { // the log last: it may have more by then
				text, err := os.ReadFile(file + name)
				if err = errors.Join(err, os.WriteFile(copied+name, text, 0o600)); err != nil {
					t.Error(err)
				}
			}
			if !slices.Contains(orders(restarted(t, copied).config.Set), value) {
				t.Errorf("%s is not on the disk", value)
			}
		})
	}
	giving.Wait()
	cancel()
	running.Wait()
}
