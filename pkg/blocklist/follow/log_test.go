package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/pkg/blocklist"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const at = 1_800_000_000_000

// A paper is a Log in memory. Read returns the records added since, a batch at a time, and then waits.
type paper struct {
	start   int64
	records []blocklist.Change // at start and after
	next    int64
	batch   int
	fails   error
	more    chan struct{}
	topic   string
}

func newPaper() *paper { return &paper{batch: 3, more: make(chan struct{}, 1)} }

func (p *paper) end() int64 {
	if n := len(p.records); n > 0 {
		return p.records[n-1].Offset + 1
	}
	return p.start
}

func (p *paper) Next() int64        { return p.next }
func (p *paper) SetNext(next int64) { p.next = next }
func (p *paper) Span() (start, end int64) {
	return p.start, p.end()
}

func (p *paper) Topic(_ context.Context, before string) (topic string, same bool, err error) {
	return p.topic, p.topic == "" || before == "" || p.topic == before, nil
}

func (p *paper) Read(context.Context) ([]blocklist.Change, error) {
	switch {
	case p.fails != nil:
		return nil, p.fails
	case p.next < p.start:
		return nil, ErrTrimmed
	case p.next > p.end():
		return nil, ErrPastEnd
	}
	first, _ := slices.BinarySearchFunc(p.records, p.next, func(c blocklist.Change, next int64) int { return int(c.Offset - next) })
	last := min(first+p.batch, len(p.records))
	if first == last {
		return nil, nil
	}
	p.next = p.records[last-1].Offset + 1
	return p.records[first:last], nil
}

func (p *paper) add(key, value []byte) int64 {
	offset := p.end()
	p.records = append(p.records, blocklist.Change{Offset: offset, Key: key, Value: value})
	return offset
}

func (p *paper) entry(t testing.TB, key string, offset int64) int64 {
	t.Helper()
	e := &blocklist.Entry{ID: "id-" + key, Rule: "per-ip", Key: key, Fields: map[string]string{"ip": key}, From: at, Until: at + 3600_000, Decided: at,
		Limit: "10/min", Count: 11, Level: 1, By: "weir", Offset: offset}
	value, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.add(blocklist.RecordKey("per-ip", key), value)
}

var listA = blocklist.ListID{Name: "a", Epoch: 1}

func (p *paper) mark(t testing.TB, m blocklist.Mark) int64 {
	t.Helper()
	if m.List.Name == "" {
		m.List = listA
	}
	if m.At == 0 {
		m.At = at
	}
	m.Partitions = max(m.Partitions, 2)
	value, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.add(m.RecordKey(), value)
}

// marked writes a watermark for both partitions.
func (p *paper) marked(t testing.TB, list blocklist.ListID, since int64) {
	t.Helper()
	for partition := range 2 {
		p.mark(t, blocklist.Mark{List: list, Partition: partition, Since: since, At: at + int64(partition)})
	}
}

func newSource(p *paper, file string) *logSource {
	f := NewFromLog(Config{Set: blocklist.NewSet(blocklist.Limits{}), File: file, Now: func() time.Time { return time.UnixMilli(at) }}, p)
	l := f.from.(*logSource)
	l.begin(p.next)
	return l
}

// catchUp reads to the log's end, as run does.
func (l *logSource) catchUp(t testing.TB, p *paper) {
	t.Helper()
	for range 10_000 {
		before := p.next
		l.once(t.Context())
		if p.fails == nil && p.next == before && p.next == p.end() && l.log.Next() == p.next {
			return
		}
		if p.fails != nil {
			return
		}
	}
	t.Fatal("it does not come to the log's end")
}

func blocked(s *blocklist.Set, key string) bool {
	a := &blocklist.Asked{Keys: []blocklist.RuleKey{{Rule: "per-ip", Key: []byte(key)}}}
	return s.Check(a, at).Entry.Found()
}

func wantKeys(t *testing.T, s *blocklist.Set, keys ...string) {
	t.Helper()
	var got []string
	for e := range s.All(at) {
		got = append(got, e.Key)
	}
	slices.Sort(got)
	if !slices.Equal(got, keys) {
		t.Fatalf("the list has %v, want %v", got, keys)
	}
}

func wantTrouble(t *testing.T, f *Follower, part string) {
	t.Helper()
	if s := f.Status(); !strings.Contains(s.Trouble, part) || (s.Trouble == "") != (part == "") {
		t.Fatalf("the trouble is %q, want one with %q", s.Trouble, part)
	}
}

func TestAListIsCompleteWithAllMarks(t *testing.T) {
	p := newPaper()
	l := newSource(p, "")
	l.catchUp(t, p)
	wantTrouble(t, l.Follower, "no aggregator")
	p.entry(t, "1.1.1.1", 1)
	p.mark(t, blocklist.Mark{Partition: 0, At: at + 7})
	l.catchUp(t, p)
	if s := l.config.Set; s.Whole() || blocked(s, "1.1.1.1") {
		t.Fatal("whole without the mark of partition 1")
	}
	wantTrouble(t, l.Follower, "partition 1 of 2")
	p.mark(t, blocklist.Mark{Partition: 1, At: at + 5})
	l.catchUp(t, p)
	want := blocklist.State{Version: blocklist.Version{List: listA, Offset: 2}, Whole: true, AsOf: at + 5}
	if got := l.config.Set.State(); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	wantKeys(t, l.config.Set, "1.1.1.1")
	wantTrouble(t, l.Follower, "")
	p.entry(t, "2.2.2.2", 2)
	p.mark(t, blocklist.Mark{Partition: 1, At: at + 9, Offset: 1})
	l.catchUp(t, p)
	if got := l.config.Set.State(); got.Version.Offset != 4 || got.AsOf != at+7 {
		t.Fatalf("%+v", got)
	}
	wantKeys(t, l.config.Set, "1.1.1.1", "2.2.2.2")
}

func TestAListIsNotCompleteBeforeTheLogsEnd(t *testing.T) {
	p := newPaper()
	p.batch = 1
	p.marked(t, listA, 0)
	p.entry(t, "1.1.1.1", 1)
	l := newSource(p, "")
	l.once(t.Context())
	l.once(t.Context())
	if l.config.Set.Whole() {
		t.Fatal("whole with a record unread that was there when reading began")
	}
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "1.1.1.1")
}

func TestEntriesBeforeTheLogsStartAreWaitedFor(t *testing.T) {
	p := newPaper()
	p.start, p.next = 10, 0
	p.marked(t, listA, 5)
	l := newSource(p, "")
	l.catchUp(t, p)
	wantTrouble(t, l.Follower, "until they are published again")
	p.entry(t, "1.1.1.1", 1)
	p.marked(t, listA, 12)
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "1.1.1.1")
}

func TestAMarkCannotBeOfOffsetsToCome(t *testing.T) {
	p := newPaper()
	p.marked(t, listA, 100)
	l := newSource(p, "")
	l.catchUp(t, p)
	if l.config.Set.Whole() {
		t.Fatal("whole by marks that speak of a log which was")
	}
}

func TestTheGreaterEpochIsBelieved(t *testing.T) {
	p := newPaper()
	p.entry(t, "1.1.1.1", 1)
	p.marked(t, listA, 0)
	l := newSource(p, "")
	l.catchUp(t, p)
	next := blocklist.ListID{Name: "a", Epoch: 2}
	p.mark(t, blocklist.Mark{List: next, Partition: 0, Since: 3})
	p.entry(t, "2.2.2.2", 2)
	l.catchUp(t, p)
	if got := l.config.Set.Version(); got.List != listA {
		t.Fatalf("%v after one mark of two", got)
	}
	wantKeys(t, l.config.Set, "1.1.1.1", "2.2.2.2")
	p.mark(t, blocklist.Mark{List: listA, Partition: 1}) // of an aggregator that does not know yet
	l.catchUp(t, p)
	wantTrouble(t, l.Follower, "partition 1 of 2")
	p.mark(t, blocklist.Mark{List: next, Partition: 1, Since: 3})
	p.mark(t, blocklist.Mark{List: listA, Partition: 1, At: at + 60_000})
	l.catchUp(t, p)
	if got := l.config.Set.Version(); got.List != next {
		t.Fatalf("%v, want %v", got, next)
	}
	wantKeys(t, l.config.Set, "1.1.1.1", "2.2.2.2")
}

func TestARecreatedTopicEmptiesNoList(t *testing.T) {
	p := newPaper()
	p.entry(t, "1.1.1.1", 1)
	p.marked(t, listA, 0)
	file := filepath.Join(t.TempDir(), "list")
	l := newSource(p, file)
	l.catchUp(t, p)
	if err := l.Keep(); err != nil {
		t.Fatal(err)
	}
	p.records = nil
	p.marked(t, listA, 0) // by aggregators that have not noticed
	afterStart := newPaper()
	afterStart.records = slices.Clone(p.records)
	for log, follower := range map[*paper]*logSource{p: l, afterStart: newSource(afterStart, file)} {
		theLogIsAnother(t, follower, log)
	}
}

func theLogIsAnother(t *testing.T, l *logSource, p *paper) {
	t.Helper()
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "1.1.1.1")
	wantTrouble(t, l.Follower, "greater epoch")
	p.entry(t, "3.3.3.3", 1)
	p.entry(t, "4.4.4.4", 1)
	p.entry(t, "5.5.5.5", 1)
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "1.1.1.1", "3.3.3.3", "4.4.4.4", "5.5.5.5") // new records apply, old ones stay
	if got := l.config.Set.Version(); got.List != listA || got.Offset != 2 {
		t.Fatal(got)
	}
	p.marked(t, blocklist.ListID{Name: "a", Epoch: 2}, 2)
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "3.3.3.3", "4.4.4.4", "5.5.5.5")
	wantTrouble(t, l.Follower, "")
}

// Aggregators begin no list when all that they know of is there: the log lost only records that came after. Then the
// list is complete again once the log has grown beyond what was read of it, and has all blocks.
func TestALogThatLostItsEndIsCompleteAgain(t *testing.T) {
	p := newPaper()
	p.entry(t, "1.1.1.1", 1)
	p.marked(t, listA, 0)
	kept := len(p.records)
	p.entry(t, "2.2.2.2", 2)
	p.order(t, "by hand", "9.9.9.9")
	p.marked(t, listA, 0)
	l, now := newSource(p, ""), time.UnixMilli(at)
	l.config.Now = func() time.Time { return now }
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "1.1.1.1", "2.2.2.2", "9.9.9.9")

	p.records = p.records[:kept]
	newer := func() {
		now = now.Add(identifyEvery)
		for partition := range 2 {
			p.mark(t, blocklist.Mark{Partition: partition, At: now.UnixMilli()})
		}
		l.catchUp(t, p)
	}
	for range 4 {
		newer()
		wantTrouble(t, l.Follower, "greater epoch")
		wantKeys(t, l.config.Set, "1.1.1.1", "2.2.2.2", "9.9.9.9")
	}
	p.entry(t, "2.2.2.2", 2)
	before := l.config.Set.Version()
	newer()
	wantTrouble(t, l.Follower, "")
	if _, _, known := l.config.Set.Changes(before, 1); known {
		t.Error("a follower that has the lost end gets no snapshot")
	}
	wantKeys(t, l.config.Set, "1.1.1.1", "2.2.2.2", "9.9.9.9")
	if got := l.config.Set.State(); got.Version.List != listA || got.Version.Offset != p.end()-1 || got.AsOf != now.UnixMilli() {
		t.Errorf("%+v", got)
	}
	if lost := l.config.Set.LeftBehind(); len(lost) != 1 || lost[0].ID != "by hand" {
		t.Errorf("orders to be sent again: %v", lost)
	}
}

func TestATrimmedLogIsReadFromItsStart(t *testing.T) {
	p := newPaper()
	p.entry(t, "1.1.1.1", 1)
	p.marked(t, listA, 0)
	l := newSource(p, "")
	l.catchUp(t, p)
	p.start, p.records = 50, nil
	p.entry(t, "2.2.2.2", 2)
	p.marked(t, listA, 0)
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "1.1.1.1")
	p.marked(t, listA, 50)
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "2.2.2.2")
	if got := l.Status(); got.Fills != 2 || got.Filling {
		t.Errorf("%+v", got)
	}
}

// At an ordinary start partitions get their watermarks one after the other: that is logged once, and is an error only
// when it lasts.
func TestLateMarksAreReportedOnlyWhenTheyLast(t *testing.T) {
	var said bytes.Buffer
	p, now := newPaper(), time.UnixMilli(at)
	f := NewFromLog(Config{Set: blocklist.NewSet(blocklist.Limits{}), Now: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&said, nil))}, p)
	l := f.from.(*logSource)
	l.begin(0)
	p.mark(t, blocklist.Mark{Partition: 0})
	for range 3 {
		l.catchUp(t, p)
		now = now.Add(marksPatience / 4)
	}
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=INFO") || !strings.Contains(f.Status().Trouble, "has no watermark") {
		t.Errorf("it has said %q, and its status is %+v", text, f.Status())
	}
	now = now.Add(marksPatience / 4)
	l.catchUp(t, p)
	if text := said.String(); strings.Count(text, "level=ERROR") != 1 {
		t.Errorf("after %v it has said %q", marksPatience, text)
	}
	p.mark(t, blocklist.Mark{Partition: 1})
	l.catchUp(t, p)
	if !f.config.Set.Whole() || f.Status().Trouble != "" || !l.awaiting.IsZero() {
		t.Errorf("whole %t, %+v", f.config.Set.Whole(), f.Status())
	}
}

func TestALogThatFailsIsReported(t *testing.T) {
	p := newPaper()
	p.entry(t, "1.1.1.1", 1)
	p.marked(t, listA, 0)
	l := newSource(p, "")
	l.catchUp(t, p)
	p.fails = errors.New("no broker answers")
	l.catchUp(t, p)
	wantTrouble(t, l.Follower, "no broker answers")
	wantKeys(t, l.config.Set, "1.1.1.1")
	p.fails = nil
	l.catchUp(t, p)
	wantTrouble(t, l.Follower, "")
}

func TestUnreadableRecordsAreCounted(t *testing.T) {
	p := newPaper()
	p.add([]byte("per-ip/1.1.1.1"), []byte{1, 2, 3})
	p.add([]byte("per-ip/2.2.2.2"), []byte{200})
	p.entry(t, "3.3.3.3", 1)
	p.marked(t, listA, 0)
	l := newSource(p, "")
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "3.3.3.3")
	if got := l.Status().Unread; got != 2 {
		t.Errorf("%d unread", got)
	}
}

func TestTheLastCompleteListIsServedAtStart(t *testing.T) {
	p := newPaper()
	for i := range 20 {
		p.entry(t, fmt.Sprintf("1.1.1.%d", i), 1)
	}
	p.marked(t, listA, 0)
	file := filepath.Join(t.TempDir(), "folder", "list")
	l := newSource(p, file)
	ctx, cancel := context.WithCancel(t.Context())
	l.catchUp(t, p)
	cancel()
	l.saver.run(ctx)
	before := l.config.Set.State()
	away := newPaper()
	away.fails = errors.New("no broker answers")
	l = newSource(away, file)
	if got := l.config.Set.State(); got != before {
		t.Fatalf("%+v, want %+v", got, before)
	}
	l.catchUp(t, away)
	if !blocked(l.config.Set, "1.1.1.7") || l.Status().Saved.IsZero() {
		t.Error("the list was not served")
	}
}

// A log that is another topic is not taken for the list, however long it is: at a start, while the list is followed, and
// with orders of both. All that is in it applies at once, and the blocks of before stay until a list of a greater epoch is
// complete.
func TestAnotherTopicIsNotTheList(t *testing.T) {
	for name, restarts := range map[string]bool{"after a restart": true, "while it is followed": false} {
		t.Run(name, func(t *testing.T) {
			now := time.UnixMilli(at)
			p := newPaper()
			p.topic = "one"
			p.entry(t, "1.1.1.1", 1)
			p.order(t, "1", "198.51.100.7")
			p.marked(t, listA, 0)
			file := filepath.Join(t.TempDir(), "list")
			l := newSource(p, file)
			l.config.Now = func() time.Time { return now }
			l.catchUp(t, p)
			if err := l.Keep(); err != nil {
				t.Fatal(err)
			}

			p.topic, p.records = "two", nil
			p.entry(t, "2.2.2.2", 2)
			p.order(t, "2", "198.51.100.8")
			p.marked(t, listA, 0) // by aggregators that have not noticed
			for i := range 9 {
				p.entry(t, fmt.Sprintf("3.3.3.%d", i), 3)
			}
			if restarts {
				p.next = 0
				l = newSource(p, file)
				l.config.Now = func() time.Time { return now }
			}
			now = now.Add(identifyEvery)
			l.catchUp(t, p)
			p.entry(t, "4.4.4.4", 4)
			l.catchUp(t, p)
			wantTrouble(t, l.Follower, "greater epoch")
			want := []string{"1.1.1.1", "198.51.100.7", "198.51.100.8", "2.2.2.2"}
			for i := range 9 {
				want = append(want, fmt.Sprintf("3.3.3.%d", i))
			}
			wantKeys(t, l.config.Set, append(want, "4.4.4.4")...)

			p.marked(t, blocklist.ListID{Name: "a", Epoch: 2}, 0)
			l.catchUp(t, p)
			wantTrouble(t, l.Follower, "")
			wantKeys(t, l.config.Set, append(want[1:], "4.4.4.4")...)
			if left := l.config.Set.LeftBehind(); len(left) != 1 || left[0].ID != "1" {
				t.Errorf("%v are to be sent again", left)
			}

			p.next = 0
			if again := newSource(p, file); again.topics.of(blocklist.ListID{Name: "a", Epoch: 2}) != "two" || again.topics.of(listA) != "one" {
				t.Errorf("it has kept %+v", again.topics)
			}
		})
	}
}

// When the aggregators' store is another too, no aggregator publishes the old list's blocks again. They stay until they end, with
// all that is new.
func TestAnotherTopicOfAnotherStore(t *testing.T) {
	now := time.UnixMilli(at)
	p := newPaper()
	p.topic = "one"
	p.entry(t, "1.1.1.1", 1)
	p.order(t, "1", "198.51.100.7")
	p.marked(t, listA, 0)
	l := newSource(p, "")
	l.config.Now = func() time.Time { return now }
	l.catchUp(t, p)

	p.topic, p.records = "two", nil
	other := blocklist.ListID{Name: "b", Epoch: 0}
	p.entry(t, "2.2.2.2", 2)
	p.marked(t, other, 0)
	now = now.Add(identifyEvery)
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "1.1.1.1", "198.51.100.7", "2.2.2.2")
	wantTrouble(t, l.Follower, "1 blocks stay active until they end")
	left := l.config.Set.LeftBehind()
	if len(left) != 1 || left[0].ID != "1" {
		t.Errorf("%v are to be sent again", left)
	}
	p.order(t, "1", "198.51.100.7")

	now = now.Add(2 * time.Hour)
	p.marked(t, other, 0)
	l.catchUp(t, p)
	wantTrouble(t, l.Follower, "")
	wantKeys(t, l.config.Set, "198.51.100.7")
	if got := l.config.Set.Version().List; got != other || len(l.config.Set.LeftBehind()) > 0 {
		t.Errorf("the list is %v", got)
	}
}

// order adds a block by hand.
func (p *paper) order(t testing.TB, id, address string) {
	t.Helper()
	order := &blocklist.Order{ID: id, Kind: blocklist.OrderBlock, Scope: "ip", Value: address, From: at, Until: blocklist.Never, By: "a", Why: "w"}
	value, err := order.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.add(order.RecordKey(), value)
}

// While the clock is ahead, entries that are not over may be forgotten. They are read again when it goes back.
func TestAClockThatWentBack(t *testing.T) {
	p := newPaper()
	p.entry(t, "1.1.1.1", 1)
	p.marked(t, listA, 0)
	l := newSource(p, "")
	ahead := time.Duration(0)
	l.config.Now = func() time.Time { return time.UnixMilli(at).Add(ahead) }
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "1.1.1.1")

	ahead = 24 * time.Hour
	p.entry(t, "2.2.2.2", 2)
	l.catchUp(t, p)
	ahead = 0
	wantKeys(t, l.config.Set)

	l.once(t.Context())
	l.catchUp(t, p)
	wantKeys(t, l.config.Set, "1.1.1.1", "2.2.2.2")
	if got := l.Status(); got.Fills != 2 {
		t.Errorf("read %d times, want 2", got.Fills)
	}

	ahead = -clockStep / 2 // as time servers correct clocks
	l.once(t.Context())
	if got := l.Status(); got.Fills != 2 {
		t.Errorf("read %d times after a small correction, want 2", got.Fills)
	}
}
