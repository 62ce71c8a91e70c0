package pipeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/seen"
	"weir/pkg/collector/pace"
	"weir/test/sink"
)

const withID = `$remote_addr [$time_iso8601] "$request" $status $request_id`

func idLine(id string, at time.Time) []byte {
	return fmt.Appendf(nil, `203.0.113.7 [%s] "GET / HTTP/1.1" 200 %s`, at.UTC().Format("2006-01-02T15:04:05.000Z07:00"), id)
}

func (r *rig) dedupes(t testing.TB, most int) *Intake {
	t.Helper()
	in, err := r.pipeline.NewIntake(IntakeConfig{Name: "shop", Envelope: "none", Format: withID, Dedupe: Dedupe{By: "request_id", Within: 10 * time.Minute, Most: most}})
	if err != nil {
		t.Fatal(err)
	}
	in.Remember("secret", nil)
	return in
}

// A twiceLog is a log in which requests stand that others have, too.
type twiceLog struct {
	lines   [][]byte
	journal *memoryJournal
	stream  *Stream
}

func (l *twiceLog) open(in *Intake) {
	l.stream = in.NewStream(StreamConfig{Log: "a log", Source: "a source", Position: l.noted(), Reached: pace.NoTime, NotBefore: pace.NoTime, Journal: l.journal, LateNotes: true})
}

// noted is how far the log is read by its journal.
func (l *twiceLog) noted() int64 {
	if n := len(l.journal.cuts); n > 0 {
		return l.journal.cuts[n-1].To
	}
	return 0
}

// Each request stands once, twice or thrice in several logs that are read at different speeds. Readers end anywhere, and so does
// the process, which takes with it what the journal does not have. Each request counts once.
func TestEachValueCountsOnce(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		begin := time.Now().Add(-5 * time.Minute)
		logs := make([]*twiceLog, 1+random.IntN(4))
		for i := range logs {
			logs[i] = &twiceLog{journal: &memoryJournal{}}
		}
		values, lines := 100+7*random.IntN(50), 0 // not a multiple of 7: each has a time of its own
		for i := range values {
			line := idLine(fmt.Sprint("id-", i), begin.Add(time.Duration(7*i%values)*time.Millisecond))
			for range 1 + random.IntN(3) {
				log := logs[random.IntN(len(logs))]
				log.lines, lines = append(log.lines, line), lines+1
			}
		}
		readTwice(t, random, logs, 1+random.IntN(300))
		hits := 0
		for _, l := range logs {
			for _, c := range l.journal.cuts {
				for _, b := range c.Batches {
					hits += b.Hits
				}
			}
		}
		if hits != values {
			t.Errorf("seed %d: of %d different requests in %d lines, %d count", seed, values, lines, hits)
		}
	}
}

// readTwice reads the logs, which end after about so many lines from time to time.
func readTwice(t *testing.T, random *rand.Rand, logs []*twiceLog, every int) {
	var in *Intake
	start := func() {
		in = newRig(t, perIP).dedupes(t, 1000)
		var known []seen.Value
		for _, l := range logs {
			for _, c := range l.journal.cuts {
				known = append(known, c.Seen...)
			}
		}
		random.Shuffle(len(known), func(i, k int) { known[i], known[k] = known[k], known[i] })
		in.Remember("secret", known)
		for _, l := range logs {
			l.open(in)
		}
	}
	start()
	for left := slices.Clone(logs); len(left) > 0; {
		i := random.IntN(len(left))
		l := left[i]
		for range 1 + random.IntN(20) {
			if at := l.stream.Position(); at < int64(len(l.lines)) {
				l.stream.mustAdd(t, l.lines[at])
			}
		}
		switch next := random.IntN(every); {
		case next == 0:
			start() // nothing is closed: the process was killed
		case next == 1:
			l.stream.Close()
			l.open(in)
		case next == 2:
			l.stream.Abandon()
			l.open(in)
		case random.IntN(4) == 0 || l.stream.Position() == int64(len(l.lines)):
			if _, err := l.stream.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		left = slices.DeleteFunc(slices.Clone(logs), func(l *twiceLog) bool { return l.noted() == int64(len(l.lines)) })
	}
	for _, l := range logs {
		l.stream.Close()
	}
}

func TestWhatIsSeenBefore(t *testing.T) {
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, c := range []struct {
		name    string
		records []string // id and minutes
		most    int
		counted int
		early   int64
	}{
		{"the same within", []string{"a 0", "a 10", "a 3"}, 1000, 1, 0},
		{"later than that", []string{"a 0", "a 11"}, 1000, 2, 0},
		{"earlier than that", []string{"a 11", "a 0"}, 1000, 2, 0},
		{"one that does not count is not remembered", []string{"a 0", "a 9", "a 18"}, 1000, 2, 0},
		{"no value", []string{"- 0", "- 0", "- 0"}, 1000, 3, 0},
		{"others", []string{"a 0", "b 0", "A 0", "aa 0"}, 1000, 4, 0},
		{"more than are remembered", []string{"a 0", "b 1", "c 2", "a 3"}, 2, 4, 2},
		{"old ones go first", []string{"a 0", "b 20", "c 40", "c 41"}, 2, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, perIP)
			in := r.dedupes(t, c.most)
			s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime, Journal: &memoryJournal{}})
			defer s.Close()
			for _, record := range c.records {
				var id string
				var minutes int
				if _, err := fmt.Sscan(record, &id, &minutes); err != nil {
					t.Fatal(err)
				}
				s.mustAdd(t, idLine(id, begin.Add(time.Duration(minutes)*time.Minute)))
			}
			if err := s.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := sink.NewTextbook(t, r.sink).Count(); n != c.counted {
				t.Errorf("%d count, want %d", n, c.counted)
			}
			status := in.Status("file")
			if n := status.Uncounted["seen"]; n != int64(len(c.records)-c.counted) || status.Seen.Early != c.early || status.Seen.Most != c.most {
				t.Errorf("the status has %d seen, and %+v", n, status.Seen)
			}
			if got := testutil.ToFloat64(r.pipeline.metrics.seenEarly.WithLabelValues("shop")); got != float64(c.early) {
				t.Errorf("the metric has %v early", got)
			}
			if got := testutil.ToFloat64(r.pipeline.metrics.seenValues.WithLabelValues("shop")); got != float64(status.Seen.Values) {
				t.Errorf("the metric has %v values, the status %d", got, status.Seen.Values)
			}
			if r.heard.Has("dedupe.values") != (c.early > 0) {
				t.Errorf("the log has %s", r.heard.String())
			}
		})
	}
}

// A client that makes its lines so long that they are cut off within the id counts all the same.
func TestIDsThatAreCutOffAreNotSeen(t *testing.T) {
	r := newRig(t, perIP)
	in := r.dedupes(t, 1000)
	s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime})
	defer s.Close()
	line := func(i int, path string) []byte {
		return fmt.Appendf(nil, `203.0.113.7 [%s] "GET /%s HTTP/1.1" 200 %032x`, time.Now().UTC().Format("2006-01-02T15:04:05Z"), path, 1<<40+i)
	}
	s.mustAdd(t, line(0, ""))
	const cut = 31
	for i := range 100 {
		long := line(1+i, strings.Repeat("a", 1000))
		s.mustAdd(t, long[:len(long)-cut])
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := sink.NewTextbook(t, r.sink).Count(); n != 101 {
		t.Errorf("%d count, want 101", n)
	}
}

// A value that Kafka refused permanently does not make the sender's second try a repetition.
func TestARefusedValueIsNotSeen(t *testing.T) {
	r := newRig(t, perIP)
	in := r.dedupes(t, 1000)
	s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime})
	defer s.Close()
	line := idLine("a", time.Now())
	r.sink.Refuse = errors.New("refused")
	s.mustAdd(t, line)
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.sink.Refuse = nil
	for range 2 {
		s.mustAdd(t, line)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := in.Status("http").Uncounted["seen"]; n != 1 {
		t.Errorf("%d were seen before, want 1", n)
	}
}

// A header is the value of a record: each of its lines counts, and none of them when the record comes again.
func TestAHeaderNamesARecordOfSeveralLines(t *testing.T) {
	r := newRig(t, perIP)
	in, err := r.pipeline.NewIntake(IntakeConfig{Name: "shop", Envelope: "none", Format: withID, Outer: []string{"record"},
		Dedupe: Dedupe{By: "record", Within: 10 * time.Minute, Most: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	in.Remember("secret", nil)
	s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime})
	defer s.Close()
	lines := func(n int) []byte {
		return slices.Concat(slices.Repeat([][]byte{append(idLine("-", time.Now()), '\n')}, n)...)
	}
	for _, id := range []string{"a", "b", "a"} {
		s.SetOuter([]string{id})
		s.mustAdd(t, lines(3))
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := in.Status("kafka"); status.Requests != 9 || status.Uncounted["seen"] != 3 {
		t.Errorf("%d of %d requests were seen before, want 3 of 9", status.Uncounted["seen"], status.Requests)
	}
}

func TestALogWithoutTheFieldOfDedupeIsReported(t *testing.T) {
	r := newRig(t, perIP)
	s := r.dedupes(t, 1000).NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime})
	defer s.Close()
	for range watchSpan + 1 {
		s.mustAdd(t, idLine("-", time.Now()))
	}
	if !r.heard.Has("no request has the field that dedupe names") {
		t.Error("nothing is reported")
	}
}

// A hit of a source with dedupe allocates nothing more than its place in the cut, which grows.
func BenchmarkSeenBefore(b *testing.B) {
	r := newRig(b, perIP)
	s := r.dedupes(b, 100_000).NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime})
	defer s.Close()
	lines := make([][]byte, 1000)
	for i := range lines {
		lines[i] = idLine(fmt.Sprint("id-", i%500), time.Now())
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.mustAdd(b, lines[i%len(lines)])
	}
}
