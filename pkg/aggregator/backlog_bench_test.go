package aggregator

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/store/redis"
	"weir/internal/store/redis/redistest"
	"weir/internal/topic"
	"weir/pkg/aggregator/position"
	"weir/pkg/hit"
)

// A backlog is what eight collectors made of the log of a site where few clients ask much and many little: eight
// partitions of hits, some 280 to a batch.
const (
	backlogClients    = 100_000
	backlogPartitions = 8
	backlogSources    = 8
	backlogCut        = 280 * backlogPartitions // lines
	backlogChunk      = 1000                    // lines that go to one source after another
	backlogGap        = 30 * time.Millisecond
	backlogWarm       = 1_000_000
	backlogHits       = 4_000_000
	backlogRate       = 400_000 // hits a second, by the partitions' clock
	backlogRules      = "rules: [{name: per-ip, key: ip, limits: [10/min, 100/hour, 1000/day], block: {for: 30d}}]"
)

// A backlogSource is what a collector has read and not sent yet.
type backlogSource struct {
	name    string
	writers [backlogPartitions]*hit.Writer
	lines   int
	sent    int64
}

func (s *backlogSource) reset() {
	for n := range s.writers {
		s.writers[n].Reset([]string{"per-ip"})
	}
	s.lines = 0
}

// cut appends what a source has to the partitions' logs.
func (s *backlogSource) cut(b testing.TB, logs *[backlogPartitions][]topic.Record, now time.Time) {
	b.Helper()
	for n, w := range s.writers {
		value, err := w.Append(nil, hit.Header{Source: s.name, From: s.sent, To: s.sent + 1, Clock: now.UnixMilli()})
		if err != nil {
			b.Fatal(err)
		}
		logs[n] = append(logs[n], topic.Record{Offset: int64(len(logs[n])), Time: now, Value: value})
	}
	s.sent++
	s.reset()
}

func backlog(b testing.TB, lines int) (logs [backlogPartitions][]topic.Record) {
	b.Helper()
	var sources [backlogSources]*backlogSource
	for n := range sources {
		sources[n] = &backlogSource{name: fmt.Sprint("lines/", n)}
		for i := range sources[n].writers {
			sources[n].writers[i] = hit.NewWriter()
		}
		sources[n].reset()
	}
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for line := range lines {
		at = at.Add(time.Duration(random.ExpFloat64() * float64(backlogGap)))
		n := int(math.Pow(random.Float64(), 3) * backlogClients)
		key := fmt.Appendf(nil, "%d.%d.%d.7", 11+n/62_500, n/250%250, n%250)
		s := sources[line/backlogChunk%backlogSources]
		s.writers[hit.Partition("per-ip", key, backlogPartitions)].Add(0, key, at.Truncate(time.Second).UnixMilli(), 1)
		if s.lines++; s.lines == backlogCut {
			s.cut(b, &logs, at.Add(time.Hour))
		}
	}
	return logs
}

// BenchmarkBacklog is the processor time of a hit of a backlog, from fetched records to verdicts and windows written to
// Redis, with what Redis takes for it and how many windows it was given.
func BenchmarkBacklog(b *testing.B) {
	logs := backlog(b, backlogWarm+backlogHits)
	for b.Loop() {
		b.StopTimer()
		r := newCatchingUp(b, logs)
		r.upTo(b, backlogWarm)
		b.StartTimer()
		begun, redisBegun, written := cpu(), r.server.CPU(), r.written()
		r.upTo(b, backlogWarm+backlogHits)
		b.ReportMetric(float64((cpu()-begun).Nanoseconds())/backlogHits, "CPU-ns/hit")
		b.ReportMetric(float64((r.server.CPU()-redisBegun).Nanoseconds())/backlogHits, "Redis-CPU-ns/hit")
		b.ReportMetric(float64(r.written()-written), "windows-written")
	}
}

// A catchingUp is the reading of a backlog, by one goroutine that turns the partitions one after the other.
type catchingUp struct {
	server     *redistest.Server
	partitions []*partition
	now        time.Time
	counted    int
}

func newCatchingUp(b *testing.B, logs [backlogPartitions][]topic.Record) *catchingUp {
	b.Helper()
	r := &catchingUp{server: redistest.Start(b), now: time.Date(2024, 1, 3, 0, 0, 0, 0, time.UTC)}
	cold, err := redis.Open(b.Context(), redis.Options{URL: "redis://" + r.server.Addr})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cold.Close() })
	a, err := Open(b.Context(), Config{
		Partitions: backlogPartitions, Retention: 48 * time.Hour, Blocklist: &outbox{killIn: -1}, Events: &outbox{killIn: -1}, EventsPartitions: 1, Store: cold,
		HotKeys: 1_000_000, Rules: parseRules(b, backlogRules), Late: 10 * time.Minute, Ahead: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return r.now },
	})
	if err != nil {
		b.Fatal(err)
	}
	a.list = a.newList(&lab{list: &outbox{}}, a.list.ID().Name)
	for n := range logs {
		commits := position.NewCommits(b.Context(), func(context.Context, int64) error { return nil })
		b.Cleanup(commits.Close)
		p := a.newPartition(n, &labLog{lab: &lab{records: logs[n]}, most: 100}, commits)
		a.hold(p)
		r.partitions = append(r.partitions, p)
	}
	for _, p := range r.partitions {
		if err := p.take(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return r
}

// upTo counts until so many hits are counted, or all.
func (r *catchingUp) upTo(b *testing.B, hits int) {
	b.Helper()
	for {
		before := r.counted
		for _, p := range r.partitions {
			one := r.turn(b, p)
			r.counted += one
			r.now = r.now.Add(time.Duration(one) * time.Second / backlogRate)
			if r.counted >= hits {
				return
			}
		}
		if r.counted == before {
			return
		}
	}
}

// turn is one of a partition, and how many hits that counted.
func (r *catchingUp) turn(b *testing.B, p *partition) (hits int) {
	b.Helper()
	before := p.position.At().Offset
	if err := p.turn(b.Context()); err != nil {
		b.Fatal(err)
	}
	p.config.Blocklist.(*outbox).deliver(len(p.config.Blocklist.(*outbox).waiting))
	p.config.Events.(*outbox).deliver(len(p.config.Events.(*outbox).waiting))
	return int(p.position.At().Offset-before) * 280
}

// written is how many windows have been.
func (r *catchingUp) written() (windows uint64) {
	for _, p := range r.partitions {
		windows += p.windows.Written()
	}
	return windows
}
