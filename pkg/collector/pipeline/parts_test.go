package pipeline

import (
	"strings"
	"testing"
	"time"

	"weir/internal/uncounted"
	"weir/pkg/collector/pace"
)

// A line whose time and client come after the beginning that is kept is long. The memory is back when streams end.
func TestALineInPartsWithoutMemory(t *testing.T) {
	r := newRig(t, perIP, func(c *Config) { c.PartsBytes = 4 << 20 })
	in, err := r.pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: "cri", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	add := func(size int, parts ...string) Reason {
		s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime, Journal: &memoryJournal{}})
		defer s.Close()
		s.mustAdd(t, []byte(`2026-03-03T08:00:00Z stdout P {"path":"/`+strings.Repeat("x", size)))
		for _, part := range parts {
			s.mustAdd(t, []byte("2026-03-03T08:00:00Z stdout "+part))
		}
		for why, n := range s.tally.uncounted {
			if n > 0 {
				return Reason(why)
			}
		}
		return Counted
	}
	const end = `F ","time":"2026-03-03T08:00:00Z","ip":"192.0.2.1"}`
	for range 5 {
		add(800 << 10) // never ends
		if why := add(800<<10, end); why != Counted {
			t.Errorf("with memory: %s", reasonWords[why])
		}
		if why := add(5<<20, end); why != ReasonLong {
			t.Errorf("without memory: %q", reasonWords[why])
		}
	}
}

// A cut never ends within a line in parts, also if the line is much later than those before it: after a crash its
// beginning has to be read again.
func TestNoCutWithinALineInParts(t *testing.T) {
	r := newRig(t, perIP)
	in, err := r.pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: "cri", Format: "combined"})
	if err != nil {
		t.Fatal(err)
	}
	other := r.pipeline.config.Pace.Join("another log", time.Minute)
	defer other.Leave()
	j := &memoryJournal{}
	s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime, Journal: j, Member: r.pipeline.config.Pace.Join("a log", time.Minute)})
	defer s.Close()
	begin := time.Now().Add(-24 * time.Hour)
	for n := range 10 {
		line := string(logLine(n, begin.Add(time.Duration(n)*time.Hour)))
		s.mustAdd(t, []byte("2026-03-03T08:00:00Z stdout P "+line[:20]))
		s.mustAdd(t, []byte("2026-03-03T08:00:00Z stdout P "+line[20:30]))
		s.mustAdd(t, []byte("2026-03-03T08:00:00Z stdout F "+line[30:]))
	}
	other.Leave()
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range j.cuts {
		if c.To%3 != 0 {
			t.Errorf("a cut ends after %d of the parts", c.To)
		}
	}
	if keys, _ := r.sink.Counted(t); len(keys) != 10 {
		t.Errorf("counted %v", keys)
	}
}

// People read why requests do not count.
func TestReasonsHaveWords(t *testing.T) {
	for r := Counted + 1; r < reasons; r++ {
		if uncounted.Words[reasonWords[r]] == "" {
			t.Errorf("%s has no words for people", reasonWords[r])
		}
	}
}
