package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

const (
	takeoverPartitions = 12
	probeEvery         = 50 * time.Millisecond
	crowdKeys          = 40_000          // whose windows are in memory
	crowdHits          = 100             // of them, with each probe
	probesLast         = 3 * time.Second // that probes go on after the partitions are shared again
)

// BenchmarkTakeover measures for how long aggregators find no offender while one of them is killed, stopped or
// started. In each partition an offender comes every 50 ms; the worst time from its hits to its entry on the list is
// how long the partition stood still. Besides, 2,000 hits a second come of 40,000 other keys. Partitions that had to change their owner are counted apart from the others.
// After each event all windows and the list are compared with a slow program's.
//
//	make bench-takeover
func BenchmarkTakeover(b *testing.B) {
	r := newBranch(b, takeoverPartitions, `rules: [{name: offender, key: user, limits: [1/min], block: {for: 24h}}, {name: crowd, key: user, limits: [1000/min]}]`)
	r.hotKeys = 3 * crowdKeys
	p := newProbes(r)
	for range 3 {
		r.install().start()
	}
	p.settle()
	p.begin()
	defer p.end()

	one, others := r.members[0], r.members[1:]
	starts := func() { one.start() }
	dies := func() { one.kill() }
	hangs := func() { one.signal(syscall.SIGSTOP); p.hangs = one }
	goesOn := func() { one.signal(syscall.SIGCONT); p.hangs = nil }
	for _, event := range []takeover{
		{name: "nothing happens"},
		{name: "one of three is killed and starts at once", does: func() { dies(); starts() }, struck: r.members[:1]},
		{name: "one of three is killed", does: dies, after: starts, struck: r.members[:1]},
		{name: "one of three ends by SIGTERM", does: one.stop, after: starts, struck: r.members[:1]},
		{name: "one of three ends by SIGTERM and starts at once", does: func() { one.stop(); starts() }, struck: r.members[:1]},
		{name: "one of three is stopped by SIGSTOP", does: hangs, after: goesOn, struck: r.members[:1]},
		{name: "it goes on after its session", before: hangs, does: goesOn},
		{name: "a third one starts", before: one.stop, does: starts},
		{name: "all three are killed and start at once", does: func() { each(r.members, (*member).kill); each(r.members, (*member).start) }, struck: r.members},
		{name: "the only one is killed and starts at once", before: func() { each(others, (*member).stop) }, does: func() { dies(); starts() },
			after: func() { each(others, (*member).start) }, struck: r.members[:1]},
	} {
		b.Run(event.name, func(b *testing.B) {
			for b.Loop() {
				p.measure(b, event)
			}
		})
	}
	r.stop()
}

// A takeover is one that is measured: what happens, and before and after it.
type takeover struct {
	name                string
	before, does, after func()
	struck              []*member // whose partitions have no owner for a while
}

func each(members []*member, do func(*member)) {
	for _, m := range members {
		do(m)
	}
}

// Probes are offenders that come all the time.
type probes struct {
	*river
	ends  func()
	hangs *member // stopped by a signal

	random *rand.Rand

	mu      sync.Mutex
	pauses  bool
	sent    map[string]probe
	arrived map[string]time.Time
}

type probe struct {
	partition int
	at        time.Time
}

func newProbes(r *river) *probes {
	return &probes{river: r, random: rand.New(rand.NewPCG(1, 2)), sent: map[string]probe{}, arrived: map[string]time.Time{}}
}

// begin sends offenders and reads the list, until end.
func (p *probes) begin() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	var running sync.WaitGroup
	p.ends = func() { cancel(); running.Wait() }
	running.Go(func() { p.send(ctx) })
	running.Go(func() { p.read(ctx) })
}

func (p *probes) end() { p.ends() }

func (p *probes) send(ctx context.Context) {
	t := p.t
	producer := p.client.Appender(topic.AppenderConfig{Topic: p.prefix + "hits", Partitions: p.partitions})
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = producer.Close(closing)
	}()
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		p.mu.Lock()
		if p.pauses {
			p.mu.Unlock()
			continue
		}
		batches := p.batches(n, now)
		err := producer.Send(ctx, batches...)
		p.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
}

// batches makes the n-th probe: in each partition two hits of an offender, and some of the crowd.
func (p *probes) batches(n int, now time.Time) (messages []topic.Message) {
	writers := make([]*hit.Writer, p.partitions)
	for number := range writers {
		writers[number] = hit.NewWriter()
		writers[number].Reset([]string{"offender", "crowd"})
		key := ""
		for try := 0; key == "" || hit.Partition("offender", []byte(key), p.partitions) != number; try++ {
			key = fmt.Sprintf("offender-%d-%d-%d", n, number, try)
		}
		writers[number].Add(0, []byte(key), now.UnixMilli(), 1)
		writers[number].Add(0, []byte(key), now.UnixMilli(), 1)
		p.sent[key] = probe{number, now}
	}
	for range crowdHits {
		key := fmt.Appendf(nil, "one-of-many-%d", p.random.IntN(crowdKeys))
		writers[hit.Partition("crowd", key, p.partitions)].Add(1, key, now.UnixMilli(), 1)
	}

	for number, w := range writers {
		value, err := w.Append(nil, hit.Header{Source: "probes", From: int64(n), To: int64(n + 1), Clock: now.UnixMilli(), Fingerprint: "probes"})
		if err != nil {
			panic(err)
		}
		messages = append(messages, topic.Message{Partition: number, Value: value})
	}
	return messages
}

// read notes when an entry comes first.
func (p *probes) read(ctx context.Context) {
	for reader := p.client.Reader(p.prefix+"blocklist", 0, 0, 0); ctx.Err() == nil; {
		records, err := reader.Fetch(ctx)
		now := time.Now()
		if err != nil {
			continue
		}
		p.mu.Lock()
		for _, record := range records {
			p.arrive(record, now)
		}
		p.mu.Unlock()
	}
}

func (p *probes) arrive(record topic.Record, now time.Time) {
	found, err := blocklist.DecodeRecord(record.Key, record.Value)
	if err != nil || found.Entry == nil {
		return
	}
	if _, before := p.arrived[found.Entry.Key]; !before {
		p.arrived[found.Entry.Key] = now
	}
}

// owners returns the members that count partitions, by partition; fewer than all while one has none or two.
func (p *probes) owners() map[int]*member {
	owners := map[int]*member{}
	for _, m := range p.members {
		if m.process == nil || m == p.hangs {
			continue
		}
		var owned []struct{ Partition int }
		if m.get("/v1/partitions", &owned) != nil {
			return nil
		}
		for _, one := range owned {
			if owners[one.Partition] != nil {
				return nil
			}
			owners[one.Partition] = m
		}
	}
	return owners
}

// settle waits until all partitions are shared evenly, and returns how.
func (p *probes) settle() (owners map[int]*member) {
	p.eventually("the partitions are shared", func() error {
		owners = p.owners()
		shares, running := map[*member]int{}, 0
		for _, m := range owners {
			shares[m]++
		}
		for _, m := range p.members {
			if m.process == nil || m == p.hangs {
				continue
			}
			if running++; shares[m] == 0 {
				return fmt.Errorf("a member has none: %v", shares)
			}
		}
		for _, share := range shares {
			if len(owners) < p.partitions || share != p.partitions/running {
				return fmt.Errorf("%d of %d: %v", len(owners), p.partitions, shares)
			}
		}
		return nil
	})
	return owners
}

// measure reports how long partitions stood still: those that changed their owner or had none, and the others.
func (p *probes) measure(b *testing.B, of takeover) {
	defer p.as(b)()
	p.happens(of.before)
	owners := p.settle()
	begun := time.Now()
	p.happens(of.does)
	after := p.settle()
	time.Sleep(probesLast)
	p.pause(true)
	defer p.pause(false)
	p.drained()

	moved := map[int]bool{}
	for number, owner := range owners {
		moved[number] = after[number] != owner
		for _, m := range of.struck {
			moved[number] = moved[number] || owner == m
		}
	}
	var worst [2]time.Duration // of those that moved, and of the others
	p.eventually("all offenders are on the list", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for key, sent := range p.sent {
			arrived, ok := p.arrived[key]
			if !ok {
				return fmt.Errorf("%s of partition %d is missing", key, sent.partition)
			}
			kind := 1
			if moved[sent.partition] {
				kind = 0
			}
			if sent.at.After(begun.Add(-probeEvery)) {
				worst[kind] = max(worst[kind], arrived.Sub(sent.at))
			}
		}
		return nil
	})
	for kind, unit := range []string{"moved-s", "stayed-s"} {
		if worst[kind] > 0 {
			b.ReportMetric(worst[kind].Seconds(), unit)
		}
	}
	w := p.truth()
	if len(w.verdicts) != len(p.sent) {
		b.Errorf("the slow program finds %d offenders of %d", len(w.verdicts), len(p.sent))
	}
	p.compareWindows(w)
	p.compareList(w, begun.Add(-time.Hour))
	b.ReportMetric(float64(failures(b)), "wrong")
	b.ReportMetric(0, "ns/op")
	p.happens(of.after)
}

// failures is 1 when a comparison has failed.
func failures(b *testing.B) int {
	if b.Failed() {
		return 1
	}
	return 0
}

// happens does something, if there is anything to do, and waits until the partitions are shared again.
func (p *probes) happens(does func()) {
	if does != nil {
		does()
		p.settle()
	}
}

// as makes the river report to another benchmark until the returned function is called.
func (p *probes) as(b *testing.B) (back func()) {
	was := p.t
	set := func(t testing.TB) {
		p.t = t
		for _, m := range p.members {
			m.t = t
		}
	}
	set(b)
	return func() { set(was) }
}

// pause ends or continues the sending.
func (p *probes) pause(pauses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pauses = pauses
}
