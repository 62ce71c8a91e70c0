package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/collector/pace"
	"weir/pkg/inline"
)

const endsRules = `rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: exports, key: ip, limits: [2 at once], lease: 1h, ends: log, inline: true}
`

// readEnds reads lines in a format with these rules, and returns the attempts whose requests have ended.
func readEnds(t *testing.T, rules, format string, lines ...string) (ended []inline.ID) {
	t.Helper()
	r := newRig(t, rules, func(c *Config) { c.Ended = func(ids []inline.ID) { ended = append(ended, ids...) } })
	in, err := r.pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: "none", Format: format})
	if err != nil {
		t.Fatal(err)
	}
	s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime, Journal: &memoryJournal{}})
	defer s.Close()
	for _, line := range lines {
		s.mustAdd(t, []byte(line))
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ended
}

// The line of a request that has ended names its attempt in the field of the edge, and nowhere else.
func TestLinesEndRequests(t *testing.T) {
	id := inline.NewID(time.Now().UnixMilli())
	mark := inline.LeaseMark(id)
	line := func(agent, weir string) string {
		return fmt.Sprintf(`203.0.113.1 - - [%s] "GET /exports?%s HTTP/1.1" 499 0 "%[2]s" "%[2]s" weir="%s"`, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), agent, weir)
	}
	record := func(more string) string {
		return fmt.Sprintf(`{"time":%q,"ip":"203.0.113.1","method":"GET","path":"/exports"%s}`, time.Now().UTC().Format(time.RFC3339Nano), more)
	}
	old := strings.Replace(line("-", mark), time.Now().UTC().Format("02/Jan/2006"), "03/Mar/2020", 1)
	escaped := strings.ReplaceAll(mark, " ", "+") + `\x22 weir=\x22` + mark
	for _, test := range []struct {
		name, format, line string
		ends               bool
	}{
		{"nginx", "weir", line("-", mark), true},
		{"nginx, a rule in shadow mode", "weir", line("-", "shadow per-ip "+mark), true},
		{"no attempt", "weir", line("-", "-"), false},
		{"refused", "weir", line("-", "refused exports"), false},
		{"what a client sends", "weir", line(escaped, "-"), false},
		{"older than the lease", "weir", old, false},
		{"cut off", "weir", line("-", mark[:len(mark)-1]), false},
		{"too long", "weir", line("-", mark+"0"), false},
		{"no hexadecimal number", "weir", line("-", mark[:len(mark)-1]+"x"), false},
		{"only an id", "weir", line("-", id.String()), false},
		{"JSON", "json", record(`,"weir":"` + mark + `"`), true},
		{"JSON, another field", "json", record(`,"weir":null,"lease":"` + mark + `"`), true},
		{"JSON, both", "json", record(`,"lease":"` + mark + `","weir":"` + mark + `"`), true},
		{"JSON, a field of something else", "json", record(`,"lease":3600,"attempt":"` + mark + `"`), false},
		{"JSON, a client's header", "json", record(`,"request":{"headers":{"X-Weir":["` + mark + `"],"lease":"` + mark + `"}}`), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want []inline.ID
			if test.ends {
				want = []inline.ID{id}
			}
			if got := readEnds(t, endsRules, test.format, test.line); !slices.Equal(got, want) {
				t.Errorf("%s ended %v", test.line, got)
			}
			if got := readEnds(t, strings.Replace(endsRules, " ends: log,", "", 1), test.format, test.line); got != nil {
				t.Errorf("%s ended %v without a rule that ends by the log", test.line, got)
			}
		})
	}
}

// An attempt in the topic of attempts is no end of it.
func TestRecordsOfAttemptsEndNothing(t *testing.T) {
	id := inline.NewID(time.Now().UnixMilli())
	record := fmt.Sprintf(`{"weir":"attempt","time":%q,"attempt":"%s","admitted":true,"rules":[{"rule":"exports","key":"203.0.113.1","cost":1,"verdict":"admitted"}],"ip":"203.0.113.1","lease":"%s","from":"a","order":1,"sequence":1}`,
		time.Now().UTC().Format(time.RFC3339Nano), id, inline.LeaseMark(id))
	if got := readEnds(t, endsRules, "attempts", record); got != nil {
		t.Errorf("%v", got)
	}
}

// Many ends are passed on together, the last ones when there is nothing more to read, and all of them in their order.
func TestEndsArePassedOn(t *testing.T) {
	var ended []inline.ID
	calls := 0
	r := newRig(t, endsRules, func(c *Config) {
		c.Ended = func(ids []inline.ID) { calls, ended = calls+1, append(ended, ids...) }
	})
	in, err := r.pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: "none", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime, Journal: &memoryJournal{}})
	defer s.Close()
	var want []inline.ID
	for range 3*endedTogether + 1 {
		id := inline.NewID(time.Now().UnixMilli())
		want = append(want, id)
		s.mustAdd(t, fmt.Appendf(nil, `{"time":%q,"ip":"203.0.113.1","lease":"%s"}`, time.Now().UTC().Format(time.RFC3339Nano), inline.LeaseMark(id)))
	}
	more := make(chan struct{}, 1)
	more <- struct{}{}
	if err := s.Wait(t.Context(), more); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ended, want) || calls < 4 || calls > 20 {
		t.Errorf("%d of %d, in %d calls", len(ended), len(want), calls)
	}
}

// BenchmarkEnds reads lines without an attempt: where no rule ends by the log, where one does, and where it reads what
// the line has.
func BenchmarkEnds(b *testing.B) {
	at := time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
	for _, with := range []struct{ name, rules, weir string }{
		{"no such rule", perIP, "-"},
		{"a rule, lines without an attempt", endsRules, "-"},
		{"a rule, lines with one", endsRules, inline.LeaseMark(inline.NewID(1))},
	} {
		b.Run(with.name, func(b *testing.B) {
			r := newRig(b, with.rules, func(c *Config) { c.Sink, c.Ended = discard{}, func([]inline.ID) {} })
			in, err := r.pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: "none", Format: "weir"})
			if err != nil {
				b.Fatal(err)
			}
			s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime, Journal: &memoryJournal{}})
			defer s.Close()
			var lines [][]byte
			for n := range 4096 {
				lines = append(lines, fmt.Appendf(nil, `10.0.%d.%d - - [%s] "GET /product/%d?ref=home HTTP/1.1" 200 %d "https://shop.example/" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/144.0.0.0" weir="%s"`,
					n%50, n%200, at, n%5000, n, with.weir))
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				s.mustAdd(b, lines[n%len(lines)])
				n++
			}
		})
	}
}
