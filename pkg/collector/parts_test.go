package collector

import (
	"strings"
	"testing"
	"time"

	"weir/pkg/collector/pace"
)

// A line whose time and client come after the beginning that is kept is long. The memory is back when streams end.
func TestALineInPartsWithoutMemory(t *testing.T) {
	r := newRig(t, perIP, func(c *pipelineConfig) { c.PartsBytes = 4 << 20 })
	in, err := r.pipeline.newIntake(IntakeConfig{Name: "test", Envelope: "cri", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	add := func(size int, parts ...string) reason {
		s := in.newStream(streamConfig{log: "a log", source: "a source", reached: pace.NoTime, notBefore: pace.NoTime, journal: &memoryJournal{}})
		defer s.close()
		s.mustAdd(t, []byte(`2026-03-03T08:00:00Z stdout P {"path":"/`+strings.Repeat("x", size)))
		for _, part := range parts {
			s.mustAdd(t, []byte("2026-03-03T08:00:00Z stdout "+part))
		}
		for why, n := range s.tally.uncounted {
			if n > 0 {
				return reason(why)
			}
		}
		return counted
	}
	const end = `F ","time":"2026-03-03T08:00:00Z","ip":"192.0.2.1"}`
	for range 5 {
		add(800 << 10) // never ends
		if why := add(800<<10, end); why != counted {
			t.Errorf("with memory: %s", reasonWords[why])
		}
		if why := add(5<<20, end); why != reasonLong {
			t.Errorf("without memory: %q", reasonWords[why])
		}
	}
}

// A cut never ends within a line in parts, also if the line is much later than those before it: after a crash its
// beginning has to be read again.
func TestNoCutWithinALineInParts(t *testing.T) {
	r := newRig(t, perIP)
	in, err := r.pipeline.newIntake(IntakeConfig{Name: "test", Envelope: "cri", Format: "combined"})
	if err != nil {
		t.Fatal(err)
	}
	other := r.pipeline.config.Pace.Join("another log", time.Minute)
	defer other.Leave()
	j := &memoryJournal{}
	s := in.newStream(streamConfig{log: "a log", source: "a source", reached: pace.NoTime, notBefore: pace.NoTime, journal: j, member: r.pipeline.config.Pace.Join("a log", time.Minute)})
	defer s.close()
	begin := time.Now().Add(-24 * time.Hour)
	for n := range 10 {
		line := string(logLine(n, begin.Add(time.Duration(n)*time.Hour)))
		s.mustAdd(t, []byte("2026-03-03T08:00:00Z stdout P "+line[:20]))
		s.mustAdd(t, []byte("2026-03-03T08:00:00Z stdout P "+line[20:30]))
		s.mustAdd(t, []byte("2026-03-03T08:00:00Z stdout F "+line[30:]))
	}
	other.Leave()
	if err := s.drain(t.Context()); err != nil {
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
