package aggregator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/topic"
	"weir/pkg/aggregator/position"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
	"weir/pkg/geoip"
	"weir/pkg/hit"
)

const labRules = `
rules:
  - {name: few, key: ip, limits: [4/10s], block: {for: 20s, then: [40s, 2m], forget: 10m}}
  - {name: paths, key: ip, distinct: path, limits: [4/10s, 9/1m], block: {for: 20s, then: [40s, 2m], forget: 10m}}
  - {name: errors, key: ip, share: {of: status == 404, over: 50%, least: 4, within: 10s, late: 4s}, block: {for: 20s, then: [40s, 2m], forget: 10m}}
  - {name: many, key: user, limits: [30/min, 6/2s], block: {for: 15s, extend: true}}
`

const labLate = time.Minute

// A lab is one partition whose log, store, Kafka and clock the test holds in its hands, and which can be killed at
// every step.
type lab struct {
	t       testing.TB
	r       *rand.Rand
	agg     *Aggregator
	records []topic.Record // the log of hits
	begins  int64          // what is before is trimmed
	store   *shaky
	list    *outbox
	events  *outbox
	groups  *outbox   // to the log of hits, of group rules; nil leaves these out
	now     time.Time // the wall clock; all blocks last beyond it
	writer  *hit.Writer
	sources map[string]int64
	resends [][]byte
	hotKeys int
	rules   string
	places  *geoip.Databases // for the rules; nil for none
	values  uint64           // what those of the rule paths are of
	shares  uint64           // what those of the rule errors are of
	steady  bool             // the store is never away: hits are counted in the order of the log
	fetches []func() error   // of the list that fail, the next first
	log     *labLog          // of the last partition
	clock   int64            // of collectors, where it is not newest
	logTime time.Time        // of records, where it is not that of their collectors

	hitsTopic, listTopic topic.Identity
}

// killed is the panic that ends a process.
type killed struct{}

var errAway = errors.New("away")

// A shaky store fails and kills at the call that the test chooses.
type shaky struct {
	store.Store
	lab       *lab
	killIn    int // calls; below 0 never
	away      bool
	loseReply float64 // how probably a call is done and fails all the same
}

func (s *shaky) step(call func() error) error {
	if s.away {
		return errAway
	}
	if s.killIn == 0 {
		if s.lab.r.IntN(2) == 0 {
			_ = call()
		}
		s.killIn = -1
		panic(killed{})
	}
	s.killIn = max(-1, s.killIn-1)
	if err := call(); err != nil {
		return err
	}
	if s.lab.r.Float64() < s.loseReply {
		return errAway
	}
	return nil
}

func (s *shaky) Take(ctx context.Context, n int) (f store.Fence, err error) {
	err = s.step(func() error { f, err = s.Store.Take(ctx, n); return err })
	return f, err
}

func (s *shaky) Write(ctx context.Context, n int, fence store.Fence, changes []store.Change) (f store.Fence, err error) {
	err = s.step(func() error { f, err = s.Store.Write(ctx, n, fence, changes); return err })
	return f, err
}

func (s *shaky) Read(ctx context.Context, n int, space store.Space, keys [][]byte) (v [][]byte, f store.Fence, err error) {
	err = s.step(func() error { v, f, err = s.Store.Read(ctx, n, space, keys); return err })
	return v, f, err
}

func (s *shaky) Scan(ctx context.Context, n int, space store.Space, from store.Cursor, pairs int) (p store.Page, err error) {
	err = s.step(func() error { p, err = s.Store.Scan(ctx, n, space, from, pairs); return err })
	return p, err
}

// An outbox is a topic and the producer's queue before it.
type outbox struct {
	arrived []topic.Message
	waiting []topic.Message
	killIn  int
}

func (o *outbox) Send(_ context.Context, messages ...topic.Message) error {
	if o.killIn == 0 {
		o.killIn = -1
		panic(killed{})
	}
	o.killIn = max(-1, o.killIn-1)
	o.waiting = append(o.waiting, messages...)
	return nil
}

// deliver has the next n messages arrive, and says so to the sender.
func (o *outbox) deliver(n int) {
	for _, m := range o.waiting[:n] {
		o.arrived = append(o.arrived, m)
		if m.Done != nil {
			m.Done(int64(len(o.arrived))-1, nil)
		}
	}
	o.waiting = o.waiting[n:]
}

// lose loses what waits when the process is killed; the first n messages arrive all the same.
func (o *outbox) lose(n int) {
	o.arrived = append(o.arrived, o.waiting[:n]...)
	o.waiting, o.killIn = nil, -1
}

func newLab(t testing.TB, seed uint64, cold store.Store) *lab {
	l := &lab{t: t, r: rand.New(rand.NewPCG(seed, 1)), list: &outbox{killIn: -1}, events: &outbox{killIn: -1},
		now: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), writer: hit.NewWriter(), sources: map[string]int64{}, hotKeys: windows.SmallestSize,
		hitsTopic: "lab/hits/1", listTopic: "lab/blocklist/1"}
	l.store = &shaky{Store: cold, lab: l, killIn: -1}
	l.rules = labRules
	paths, _ := parseRules(t, labRules).Rule("paths")
	l.values = paths.ValuesOf()
	errors, _ := parseRules(t, labRules).Rule("errors")
	l.shares = errors.ValuesOf()
	l.start(labRules)
	return l
}

// start makes a new process's aggregator.
func (l *lab) start(rules string) {
	l.t.Helper()
	logger := slog.New(slog.DiscardHandler)
	var groups publishing.Sender
	if l.groups != nil {
		groups = l.groups
	}
	a, err := Open(context.Background(), Config{
		Partitions: 1, Retention: 48 * time.Hour, GroupHits: groups, Blocklist: l.list, Events: l.events, EventsPartitions: 1, Store: l.store.Store,
		HotKeys: l.hotKeys, MostWaiting: 1_000_000, Rules: parseRules(l.t, rules).Located(l.places), Late: labLate, Ahead: 10 * time.Second, Logger: logger,
		Now: func() time.Time { return l.now },
	})
	if err != nil {
		l.t.Fatal(err)
	}
	a.config.Store = l.store
	a.list = a.newList(l, a.list.ID().Name)
	l.agg = a
}

// End is that of the list.
func (l *lab) End(context.Context) (int64, error) { return int64(len(l.list.arrived)), nil }

// Identity is that of the list's topic.
func (l *lab) Identity(context.Context) (topic.Identity, error) { return l.listTopic, nil }

// Reader reads the list.
func (l *lab) Reader(offset int64) publishing.Reader { return &listReader{l, offset} }

type listReader struct {
	l    *lab
	next int64
}

func (r *listReader) Next() int64          { return r.next }
func (r *listReader) SetNext(offset int64) { r.next = offset }
func (r *listReader) Span() topic.Span     { return topic.Span{End: int64(len(r.l.list.arrived))} }

func (r *listReader) Fetch(context.Context) ([]topic.Record, error) {
	if some := r.l.fetches; len(some) > 0 {
		r.l.fetches = some[1:]
		return nil, some[0]()
	}
	var records []topic.Record
	for _, m := range r.l.list.arrived[r.next:] {
		records = append(records, topic.Record{Offset: r.next, Key: m.Key, Value: m.Value})
		r.next++
	}
	return records, nil
}

// late has a record of the list come late.
func (l *lab) late(p *partition, name string, entry *blocklist.Entry) {
	p.publisher.Superseded(context.Background(), name, entry)
}

// A labLog reads the lab's records.
type labLog struct {
	*lab
	next    int64
	most    int
	instead func(ctx context.Context) ([]topic.Record, error) // of Fetch, where it is set
	patient bool
}

// Identity is that of the topic of hits.
func (l *labLog) Identity(context.Context) (topic.Identity, error) { return l.hitsTopic, nil }

func (l *labLog) SetNext(offset int64)    { l.next = offset }
func (l *labLog) SetPatient(patient bool) { l.patient = patient }
func (l *labLog) Span() topic.Span        { return topic.Span{Start: l.begins, End: int64(len(l.records))} }

func (l *labLog) Fetch(ctx context.Context) ([]topic.Record, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if l.instead != nil {
		return l.instead(ctx)
	}
	if l.next < l.begins {
		return nil, topic.ErrTrimmed
	}
	if l.next > int64(len(l.records)) {
		return nil, topic.ErrPastEnd
	}
	end := min(int64(len(l.records)), l.next+int64(l.most))
	some := l.records[l.next:end]
	l.next = end
	return some, nil
}

func (l *lab) partition() *partition {
	commits := position.NewCommits(context.Background(), func(context.Context, int64) error { return nil })
	l.t.Cleanup(commits.Close)
	l.log = &labLog{lab: l, most: 1 + l.r.IntN(30)}
	p := l.agg.newPartition(0, l.log, commits)
	p.keptClear, p.owedPauses = 0, 0
	if l.steady {
		p.own.Patience = time.Hour
	}
	return p
}

// takes is a partition that is taken.
func (l *lab) takes() *partition {
	l.t.Helper()
	p := l.partition()
	if err := p.take(context.Background()); err != nil {
		l.t.Fatal(err)
	}
	return p
}

// turns has a partition turn until it is caught up and all is safe.
func (l *lab) settle(p *partition) {
	l.t.Helper()
	for range 10_000 {
		l.turn(p)
		l.list.deliver(len(l.list.waiting))
		l.events.deliver(len(l.events.waiting))
		l.deliverGroups(1)
		s := p.shown.Load()
		if p.position.At().Offset == int64(len(l.records)) && checkpointOf(p).Offset == p.position.At().Offset && s.Dirty == 0 && s.Waiting == 0 && s.Unsent == 0 &&
			p.position.Settled() && p.publisher.Complete() && !p.publisher.Walks() {
			return
		}
	}
	l.t.Fatalf("not settled: %+v", p.shown.Load())
}

// checkpointOf is the last checkpoint that a partition has written.
func checkpointOf(p *partition) windows.Checkpoint {
	stored, _ := p.saver.Stored()
	return stored
}

// save has a checkpoint be written just now.
func (l *lab) save(p *partition) {
	l.t.Helper()
	if err := p.saver.Write(context.Background(), p.checkpointAt(p.position.At()), nil); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) turn(p *partition) {
	l.t.Helper()
	l.now = l.now.Add(300 * time.Millisecond)
	if err := p.turn(context.Background()); err != nil {
		l.t.Fatal(err)
	}
}

// deliverGroups has a part of the hits of groups arrive in the log.
func (l *lab) deliverGroups(part float64) {
	if l.groups == nil {
		return
	}
	l.groups.deliver(int(part * float64(len(l.groups.waiting))))
	for _, m := range l.groups.arrived {
		l.append(m.Value)
	}
	l.groups.arrived = nil
}

// live has a process run for some turns, and says whether it was killed.
func (l *lab) live(p *partition, turns int) (dead bool) {
	defer func() {
		if cause := recover(); cause != nil {
			if _, ok := cause.(killed); !ok {
				panic(cause)
			}
			dead = true
		}
	}()
	taken := false
	for range turns {
		l.now = l.now.Add(300 * time.Millisecond)
		var err error
		if !taken {
			err = p.take(context.Background())
			taken = err == nil
			p.windows.WriteKeys = 4
		} else if err = p.turn(context.Background()); err != nil {
			taken = false
		}
		if err != nil && !errors.Is(err, errAway) && !errors.Is(err, store.ErrFenced) {
			l.t.Fatal(err)
		}
		l.list.deliver(l.r.IntN(len(l.list.waiting) + 1))
		l.events.deliver(l.r.IntN(len(l.events.waiting) + 1))
		l.deliverGroups(l.r.Float64())
	}
	return false
}

// kill loses what the process had.
func (l *lab) kill() {
	l.list.lose(l.r.IntN(len(l.list.waiting) + 1))
	l.events.lose(l.r.IntN(len(l.events.waiting) + 1))
	if l.groups != nil {
		l.groups.lose(l.r.IntN(len(l.groups.waiting) + 1))
		l.deliverGroups(0)
	}
	l.store.killIn, l.store.away, l.store.loseReply = -1, false, 0
	l.start(l.rules)
}

// send writes a cut to the log.
func (l *lab) send(source, ruleName string, fill func(*hit.Writer)) {
	l.t.Helper()
	l.sendValues(source, ruleName, 0, fill)
}

// sendValues writes a cut of hits with values of something; 0 for hits without values.
func (l *lab) sendValues(source, ruleName string, of uint64, fill func(*hit.Writer)) {
	l.t.Helper()
	l.writer.ResetValues([]string{ruleName}, []uint64{of})
	fill(l.writer)
	from := l.sources[source]
	l.sources[source] += 10
	value, err := l.writer.Append(nil, hit.Header{Source: source, From: from, To: from + 10, Clock: max(l.clock, l.newest().UnixMilli())})
	if err != nil {
		l.t.Fatal(err)
	}
	l.append(value)
	l.resends = append(l.resends, value)
}

func (l *lab) append(value []byte) {
	l.records = append(l.records, topic.Record{Offset: int64(len(l.records)), Time: l.recorded(), Value: value})
}

// recorded is the time of the next record.
func (l *lab) recorded() time.Time {
	if !l.logTime.IsZero() {
		return l.logTime
	}
	return time.UnixMilli(max(l.clock, l.newest().UnixMilli()))
}

// newest is the time that requests have come to.
func (l *lab) newest() time.Time {
	return time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(len(l.records)) * 150 * time.Millisecond)
}

// traffic writes random batches: mostly new ones, some that were sent before, contradict others or are damaged.
func (l *lab) traffic(batches int) {
	l.t.Helper()
	for range batches {
		switch n := l.r.IntN(40); {
		case n == 0 && len(l.resends) > 0:
			l.append(l.resends[l.r.IntN(len(l.resends))])
		case n == 1:
			l.append([]byte{hit.Version, 7, 7})
		case n == 2:
			l.sources["s0"] -= min(l.sources["s0"], 5)
			l.batch("s0")
		default:
			l.batch(fmt.Sprint("s", l.r.IntN(3)))
		}
	}
}

func (l *lab) batch(source string) {
	names, of, values := []string{"few", "many", "paths", "errors"}, uint64(0), 7
	if !strings.Contains(l.rules, "name: paths") {
		names = names[:2]
	}
	name := names[l.r.IntN(len(names))]
	if name == "paths" {
		switch of = l.values; l.r.IntN(20) { // of other fields, or of none, as from another version of the rule
		case 0:
			of++
		case 1:
			of = 0
		}
	}
	if name == "errors" {
		of, values = l.shares, 2
	}
	l.sendValues(source, name, of, func(w *hit.Writer) {
		for range 1 + l.r.IntN(12) {
			key := fmt.Appendf(nil, "192.0.2.%d", min(l.r.IntN(60), l.r.IntN(60)))
			if name == "errors" { // most keys send some requests at once, and then nothing for long
				key = fmt.Appendf(nil, "192.0.2.%d", len(l.records)*7%240+l.r.IntN(2))
			}
			at := l.newest().UnixMilli() - int64(l.r.ExpFloat64()*5000)
			switch l.r.IntN(30) {
			case 0:
				w.Unblock(0, key, at, "order")
			case 1:
				w.Add(0, key, at+20_000, 1) // ahead
			default:
				if of != 0 {
					w.AddValue(0, key, at, uint64(l.r.IntN(values)))
					continue
				}
				w.Add(0, key, at, 1+int64(l.r.IntN(2)))
			}
		}
	})
}

// said are the last entries of the list by their record's key, as readers keep them.
func (l *lab) said() map[string]*blocklist.Entry {
	said := map[string]*blocklist.Entry{}
	for _, m := range l.list.arrived {
		record, err := blocklist.DecodeRecord(m.Key, m.Value)
		if err != nil {
			l.t.Fatal(err)
		}
		e := record.Entry
		if e == nil {
			continue
		}
		if was := said[string(m.Key)]; was == nil || e.Generation > was.Generation || e.Generation == was.Generation && e.Offset >= was.Offset {
			said[string(m.Key)] = e
		}
	}
	return said
}

func (l *lab) entry(key, value []byte) *blocklist.Entry {
	record, err := blocklist.DecodeRecord(key, value)
	if err != nil {
		l.t.Fatal(err)
	}
	return record.Entry
}
