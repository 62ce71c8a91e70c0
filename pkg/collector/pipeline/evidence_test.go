package pipeline

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/pkg/evidence"
	"weir/pkg/rule"
)

func evidenceLine(path string, at time.Time) []byte {
	return fmt.Appendf(nil, `203.0.113.1 - - [%s] "GET %s HTTP/1.1" 404 2 "-" "probe/1"`, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), path)
}

// Requests that count are copied when their cut is made: those of rules with evidence, and not those of a backlog. The
// fields that only the copy shows are read for it.
func TestRequestsThatCountAreCopied(t *testing.T) {
	ring := evidence.NewRing(evidence.MinRing)
	r := newRig(t, `rules:
  - {name: per-ip, key: ip, limits: [10/min], match: status == 404}
  - {name: none, key: ip, limits: [10/min], evidence: 0}
`, func(c *Config) { c.Evidence = ring })
	s := r.stream(t, StreamConfig{})
	find := func(name string) []evidence.Request {
		return ring.Find(ring.Hash(ring.Rule(name), []byte("203.0.113.1")), math.MaxInt64, 20)
	}
	cut := func(lines ...[]byte) {
		t.Helper()
		for _, line := range lines {
			s.mustAdd(t, line)
		}
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	now := time.Now().Truncate(time.Second)
	cut(evidenceLine("/one?token=secret", now.Add(-time.Second)), evidenceLine("/two", now))
	want := []evidence.Request{
		{Time: now.UTC(), Client: "203.0.113.1", Method: "GET", Path: "/two", Status: 404, Agent: "probe/1"},
		{Time: now.Add(-time.Second).UTC(), Client: "203.0.113.1", Method: "GET", Path: "/one?token=***", Status: 404, Agent: "probe/1"},
	}
	if got := find("per-ip"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, expected %v", got, want)
	}
	if got := find("none"); len(got) != 0 {
		t.Errorf("a rule without evidence has %v", got)
	}

	// The time of the newest request of a log does not go back, so the backlog is another log.
	s = r.stream(t, StreamConfig{})
	for range 3 {
		cut(evidenceLine("/old", now.Add(-time.Hour)))
	}
	if s.copier.on != true && !s.copier.old {
		t.Error("a backlog is not recognised")
	}
	cut(evidenceLine("/new", now)) // the cut after a backlog may lack what the copy needs
	cut(evidenceLine("/newer", now))
	if got := find("per-ip"); len(got) != 3 || got[0].Path != "/newer" && got[1].Path != "/newer" {
		t.Errorf("after a backlog there is %v", got)
	}
}

// When a reload gives a rule evidence, or takes it away, the next cut follows it.
func TestEvidenceFollowsAReload(t *testing.T) {
	ring := evidence.NewRing(evidence.MinRing)
	const none = "rules: [{name: per-ip, key: ip, limits: [10/min], evidence: 0}]\n"
	r := newRig(t, none, func(c *Config) { c.Evidence = ring })
	s := r.stream(t, StreamConfig{})
	for i, rules := range []string{perIP, none, perIP} {
		set, _, err := rule.Parse("rules.yaml", []byte(rules))
		if err != nil {
			t.Fatal(err)
		}
		r.pipeline.SetRules(set, nil)
		s.mustAdd(t, evidenceLine(fmt.Sprintf("/%d", i), time.Now()))
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := ring.Find(ring.Hash(ring.Rule("per-ip"), []byte("203.0.113.1")), math.MaxInt64, 20)
	if len(got) != 2 || got[0].Path+got[1].Path != "/2/0" && got[0].Path+got[1].Path != "/0/2" {
		t.Errorf("got %v", got)
	}
}

// BenchmarkEvidence counts live lines and those of a backlog, with and without copying them.
func BenchmarkEvidence(b *testing.B) {
	for _, age := range []time.Duration{0, time.Hour} {
		for _, size := range []int{0, 16 << 20} {
			name := map[time.Duration]string{0: "live", time.Hour: "backlog"}[age] + map[bool]string{true: "/without", false: "/with"}[size == 0]
			b.Run(name, func(b *testing.B) { benchmarkEvidence(b, age, size) })
		}
	}
}

func benchmarkEvidence(b *testing.B, age time.Duration, size int) {
	r := newRig(b, perIP, func(c *Config) {
		c.Sink = discard{}
		if size > 0 {
			c.Evidence = evidence.NewRing(size)
		}
	})
	s := r.stream(b, StreamConfig{})
	at := time.Now().Add(-age).UTC().Format("02/Jan/2006:15:04:05 -0700")
	var lines [][]byte
	for n := range 4096 {
		lines = append(lines, fmt.Appendf(nil, `10.0.%d.%d - - [%s] "GET /product/%d?ref=home HTTP/1.1" 200 %d "https://shop.example/" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/144.0.0.0"`,
			n%50, n%200, at, n%5000, n))
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		s.mustAdd(b, lines[n%len(lines)]) // it also cuts
		n++
	}
}

// A discard has written every message at once.
type discard struct{}

func (discard) Send(_ context.Context, messages ...topic.Message) error {
	for i := range messages {
		messages[i].Done(0, nil)
	}
	return nil
}
