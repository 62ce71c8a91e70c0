package ordered_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/pkg/collector/ordered"
	"weir/test/streams"
	"weir/test/wait"
)

// A memory is a log in memory, whose server fails from time to time. Its IDs are those of the entries before the place.
type memory struct {
	mu       sync.Mutex
	made     int // how many times
	lines    []string
	removed  int
	random   *rand.Rand // nil never fails
	panicked bool       // the next read panics
	missing  bool
	later    bool // another log comes first
	ends     bool // it has ended once all is read
	closed   int
}

var errServer = errors.New("the server fails")

func (m *memory) String() string { return "memory" }

func (m *memory) Close() {}

func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *memory) add(lines []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, lines...)
}

// again makes the log again.
func (m *memory) again() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made++
	m.lines, m.removed = nil, 0
}

func place(position int) ordered.Place {
	return ordered.Place{Position: int64(position), ID: "after " + strconv.Itoa(position)}
}

func (m *memory) Extent(_ context.Context, was *ordered.Known) (e ordered.Extent, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.missing {
		return e, ordered.ErrMissing
	}
	if m.later {
		return e, ordered.ErrLater
	}
	e = ordered.Extent{Identity: strconv.Itoa(m.made), First: place(m.removed), Last: place(len(m.lines))}
	if was != nil && was.Identity != e.Identity {
		e.Other, e.Begin = "it was made again", e.First
	}
	return e, m.fails()
}

func (m *memory) Since(context.Context, time.Time) (ordered.Place, error) { return place(3), nil }

func (m *memory) fails() error {
	if m.random == nil || m.random.IntN(30) > 0 {
		return nil
	}
	return errServer
}

func (m *memory) Read(_ context.Context, after ordered.Place) (page ordered.Page, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.panicked:
		m.panicked = false
		panic("a log panics")
	case m.missing:
		return page, ordered.ErrMissing
	case m.ends && after.Position == int64(len(m.lines)):
		return page, ordered.ErrEnded
	case after.Position > int64(len(m.lines)):
		return page, ordered.ErrOther
	}
	from := max(int(after.Position), m.removed)
	if from == int(after.Position) && after.ID != place(from).ID {
		return page, errors.New("the ID is " + after.ID)
	}
	page.Start, page.Lost = int64(from), int64(from)-after.Position
	n := min(len(m.lines)-from, 7)
	if m.random != nil && n > 0 {
		n = m.random.IntN(n + 1)
	}
	for i, line := range m.lines[from : from+n] {
		page.Entries = append(page.Entries, ordered.Entry{Value: slices.Clone([]byte(line)), After: place(from + i + 1)})
	}
	page.Waiting = int64(len(m.lines) - from - n)
	if n == 0 {
		m.mu.Unlock()
		time.Sleep(time.Millisecond)
		m.mu.Lock()
	}
	if n == 0 {
		return page, nil
	}
	return page, m.fails()
}

func newBench(t *testing.T, log *memory) *streams.Bench {
	return streams.New(t, "memory", func() ([]ordered.Log, error) { return []ordered.Log{log}, nil })
}

// A server that fails, a log that panics, and a collector that stops while nothing is acknowledged: each entry counts
// once.
func TestEachEntryCountsOnce(t *testing.T) {
	t.Parallel()
	log := &memory{random: rand.New(rand.NewPCG(1, 2))}
	b := newBench(t, log)
	log.add(b.Lines(500))
	b.Start()
	b.Await()
	for range 3 {
		b.Sink.Set(func() { b.Sink.Mute = true })
		log.add(b.Lines(100))
		b.Sink.Await(t, b.Want)
		b.Restart(func() { log.add(b.Lines(50)) })
		b.Sink.Unmute()
		b.Await()
	}
}

func TestALogThatPanicsContinues(t *testing.T) {
	t.Parallel()
	log := &memory{}
	b := newBench(t, log)
	log.add(b.Lines(20))
	b.Start()
	b.Await()
	log.mu.Lock()
	log.panicked = true
	log.mu.Unlock()
	b.Says("a log panics")
	log.add(b.Lines(20))
	b.Await()
}

// A log that was made again is another one, whether it is shorter or longer, and the one before is forgotten.
func TestALogThatIsMadeAgain(t *testing.T) {
	log := &memory{}
	b := newBench(t, log)
	log.add(b.Lines(20))
	b.Start()
	b.Await()
	log.again()
	log.add(b.Lines(5))
	b.Await()
	b.Says("it was made again")
	b.Restart(func() {
		log.again()
		log.add(b.Lines(90))
	})
	b.Await()
	if sources := b.Sink.Sources(t); len(sources) != 3 {
		t.Errorf("the batches have the sources %v", sources)
	}
}

// A log that is missing at first begins with its first entry, and one about which nothing is stored where start says.
func TestStart(t *testing.T) {
	for name, want := range map[string]int64{"missing": 0, "latest": 10, "duration": 3, "earliest": 0} {
		t.Run(name, func(t *testing.T) {
			log := &memory{missing: name == "missing"}
			b := newBench(t, log)
			b.Source.Ordered.Start.Latest = name == "latest" || name == "missing"
			if name == "duration" {
				b.Source.Ordered.Start.Before = time.Hour
			}
			lines := b.Unread(int(want))
			log.add(append(lines, b.Lines(10-int(want))...))
			b.Start()
			if name == "missing" {
				b.Trouble("it does not exist")
				log.mu.Lock()
				log.missing = false
				log.mu.Unlock()
			}
			b.Await()
		})
	}
}

// Entries that were removed before they were read are lost, and the position goes on behind them.
func TestEntriesThatAreRemoved(t *testing.T) {
	log := &memory{}
	b := newBench(t, log)
	log.add(b.Lines(10))
	b.Start()
	b.Await()
	b.Restart(func() {
		log.add(b.Unread(15))
		log.add(b.Lines(5))
		log.mu.Lock()
		log.removed = 25
		log.mu.Unlock()
	})
	b.Await()
	b.Says("entries=15 from=10 to=25")
	wait.Until(t, "the position to be behind them", func() bool { return b.Status().Logs[0].Position == 30 })
}

// Logs that a server lists begin where start says if they are in its first answer, and with their first entries if they
// are in a later one. One that has ended is closed once Kafka has its hits, and forgotten once it is not listed.
func TestListedLogs(t *testing.T) {
	logs := []*named{{name: "one", memory: &memory{}}, {name: "two", memory: &memory{later: true}}, {name: "three", memory: &memory{}}}
	b := streams.New(t, "memory", nil)
	var mu sync.Mutex
	var listed []ordered.Log
	fault := errServer
	list := func(of ...*named) {
		mu.Lock()
		defer mu.Unlock()
		listed, fault = nil, nil
		for _, log := range of {
			listed = append(listed, log)
		}
	}
	b.Source.Ordered.List = func(context.Context) ([]ordered.Log, error) {
		mu.Lock()
		defer mu.Unlock()
		all := slices.Clone(listed)
		for i, log := range all {
			all[i] = &named{name: log.String(), memory: log.(*named).memory}
		}
		return all, fault
	}
	b.Source.Ordered.Start.Latest = true
	for _, log := range logs[:2] {
		log.add(b.Unread(5))
	}
	b.Start()
	b.Trouble("the server fails")
	list(logs[0], logs[1])
	wait.Until(t, "one to begin", func() bool { return len(b.Status().Logs) == 1 })
	if b.CaughtUp() {
		t.Error("it has caught up, and two has not begun")
	}
	b.Sink.Set(func() { b.Sink.Mute = true })
	logs[0].add(b.Lines(20))
	logs[0].set(func() { logs[0].ends = true })
	logs[2].add(b.Lines(10))
	list(logs...)
	b.Sink.Await(t, b.Want)
	logs[0].set(func() {
		if logs[0].closed > 0 {
			t.Error("one is closed, and Kafka does not have its hits")
		}
	})
	b.Sink.Unmute()
	wait.Until(t, "one to be closed", func() (closed bool) { logs[0].set(func() { closed = logs[0].closed > 0 }); return closed })
	logs[1].set(func() { logs[1].later = false })
	b.Settle()
	logs[1].add(b.Lines(5))
	b.Await()
	list(logs[1:]...)
	b.Says("a log that has ended is forgotten")
	logs[0].again()
	logs[0].set(func() { logs[0].ends = false })
	logs[0].add(b.Lines(15))
	list(logs...)
	b.Await()
	b.Restart(func() { logs[0].add(b.Lines(5)) })
	b.Await()
}

// A log that went while no collector ran is forgotten, if the server has others of its identity.
func TestLogsThatWentMeanwhile(t *testing.T) {
	logs := []*shard{{named{name: "one", memory: &memory{}}}, {named{name: "two", memory: &memory{}}}}
	b := streams.New(t, "memory", nil)
	listed := logs
	b.Source.Ordered.List = func(context.Context) (all []ordered.Log, err error) {
		for _, log := range listed {
			all = append(all, &shard{named{name: log.name, memory: log.memory}})
		}
		return all, nil
	}
	for _, log := range logs {
		log.add(b.Lines(5))
	}
	b.Start()
	b.Await()
	both := b.JournalBytes()
	b.Restart(func() { logs[1].made, listed = 1, logs[1:] }) // another stream
	b.Settle()
	b.Says("it was made again")
	if other := b.JournalBytes(); other < both {
		t.Errorf("the journal has %d bytes and had %d: the log of another stream is forgotten", other, both)
	}
	b.Restart(func() { logs[1].made = 0 })
	b.Says(`msg="a log that the server does not have any more is forgotten" source=logs log=one`)
	wait.Until(t, "the journal to have one log", func() bool { return b.JournalBytes() < both*2/3 }) // also without the other stream's
}

// A shard is a log that knows its identity.
type shard struct{ named }

func (s *shard) Identity() (identity string) {
	s.set(func() { identity = strconv.Itoa(s.made) })
	return identity
}

// A named log has another name.
type named struct {
	name string
	read bool
	*memory
}

func (n *named) Read(ctx context.Context, after ordered.Place) (ordered.Page, error) {
	n.set(func() { n.read = true })
	return n.memory.Read(ctx, after)
}

// Close counts logs that were read: others are those that are known already.
func (n *named) Close() {
	n.set(func() {
		if n.read {
			n.closed++
		}
	})
}

func (n *named) String() string { return n.name }
