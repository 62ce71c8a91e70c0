package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/pkg/collector/pace"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/locked"
	"weir/test/sink"
)

// A memoryJournal keeps cuts as a group's commit does: their positions, not their bytes.
type memoryJournal struct {
	mu           sync.Mutex
	cuts         []*Cut
	acknowledged []*Cut
	slow         time.Duration
	fault        error
}

func (j *memoryJournal) Note(c *Cut) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cuts = append(j.cuts, c)
	if j.slow == 0 {
		c.SetNoted(j.fault)
		return
	}
	time.AfterFunc(j.slow, func() { c.SetNoted(j.fault) })
}

func (j *memoryJournal) Done(c *Cut) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acknowledged = append(j.acknowledged, c)
}

// A rig is a pipeline for streams under test.
type rig struct {
	pipeline *Pipeline
	sink     *sink.Memory
	metrics  *prometheus.Registry
	heard    *locked.Buffer
}

func newRig(t testing.TB, rules string, changes ...func(*Config)) *rig {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{sink: sink.New(3), metrics: prometheus.NewRegistry(), heard: &locked.Buffer{}}
	logger := slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), r.heard), nil))
	config := Config{
		Folder: t.TempDir(), Late: time.Minute, Ahead: 10 * time.Second, Sink: r.sink, Partitions: 3,
		Pace: pace.New(logger, time.Now), Now: time.Now, Logger: logger, Metrics: r.metrics,
	}
	for _, change := range changes {
		change(&config)
	}
	r.pipeline = New(config)
	r.pipeline.SetRules(set, nil)
	return r
}

const perIP = "rules: [{name: per-ip, key: ip, limits: [10/min]}]\n"

func (r *rig) stream(t testing.TB, config StreamConfig) *Stream {
	t.Helper()
	in, err := r.pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: "none", Format: "combined"})
	if err != nil {
		t.Fatal(err)
	}
	config.Log, config.Source, config.Reached, config.NotBefore = "a log", "a source", pace.NoTime, pace.NoTime
	s := in.NewStream(config)
	t.Cleanup(s.Close)
	return s
}

func logLine(n int, at time.Time) []byte {
	return fmt.Appendf(nil, `203.0.113.%d - - [%s] "GET /%d HTTP/1.1" 200 2 "-" "-"`, n%20, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), n)
}

func (s *Stream) mustAdd(t testing.TB, record []byte) {
	t.Helper()
	if err := s.Add(t.Context(), record, s.position+1); err != nil {
		t.Fatal(err)
	}
}

// TestWhenACutIsMade follows one stream in virtual time.
func TestWhenACutIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, perIP)
		r.sink.Delay = 100 * time.Millisecond
		j := &memoryJournal{}
		s := r.stream(t, StreamConfig{Journal: j})
		more := make(chan struct{})
		wait := func(d time.Duration) {
			time.AfterFunc(d, func() { more <- struct{}{} })
			if err := s.Wait(t.Context(), more); err != nil {
				t.Fatal(err)
			}
		}
		cuts := func(want int, when string) {
			t.Helper()
			if len(j.cuts) != want {
				t.Errorf("%s: %d cuts, want %d", when, len(j.cuts), want)
			}
		}
		now := time.Now()
		s.mustAdd(t, logLine(1, now))
		cuts(0, "before it is said that there is no more")
		wait(0)
		cuts(1, "nothing is in flight")
		s.mustAdd(t, logLine(2, now))
		wait(cutAfter - time.Millisecond)
		cuts(1, "one is in flight")
		wait(2 * time.Millisecond)
		cuts(2, "after 5 ms")
		r.sink.Delay = time.Millisecond
		wait(200 * time.Millisecond)
		r.sink.Delay = 2 * time.Millisecond
		s.mustAdd(t, logLine(3, now))
		wait(0)
		s.mustAdd(t, logLine(4, now))
		wait(3 * time.Millisecond)
		cuts(4, "when the one in flight returns")
		wait(time.Second)
		s.mustAdd(t, []byte("# no request"))
		wait(emptyCutAfter / 2)
		cuts(4, "nothing to send")
		wait(emptyCutAfter)
		cuts(5, "nothing to send, a second later")
		if to := j.cuts[4].To; to != 5 || len(j.cuts[4].Batches) != 0 {
			t.Errorf("the last cut ends at %d with %d batches", to, len(j.cuts[4].Batches))
		}
		for i, c := range j.cuts[1:] {
			if c.From != j.cuts[i].To {
				t.Errorf("a cut begins at %d, the one before ended at %d", c.From, j.cuts[i].To)
			}
		}
	})
}

// TestNothingIsSentBeforeItIsNoted, and nothing at all when the journal has refused it.
func TestNothingIsSentBeforeItIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, perIP)
		j := &memoryJournal{slow: time.Second}
		s := r.stream(t, StreamConfig{Journal: j})
		s.mustAdd(t, logLine(1, time.Now()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-1)
		defer cancel()
		if err := s.Drain(ctx); err == nil {
			t.Error("drained, and not noted")
		}
		if keys, _ := r.sink.Counted(t); len(keys) > 0 {
			t.Error("sent, and not noted")
		}
		if err := s.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if keys, _ := r.sink.Counted(t); len(keys) != 1 {
			t.Error("noted, and not sent")
		}
		j.fault = io.ErrClosedPipe
		s.mustAdd(t, logLine(2, time.Now()))
		if err := s.Drain(t.Context()); err == nil {
			t.Error("a cut was refused, and the stream goes on")
		}
		if keys, _ := r.sink.Counted(t); len(keys) != 1 {
			t.Error("a cut that was refused is sent")
		}
	})
}

// TestWhatIsReadIsInFlight: a status in which nothing waits to be read has what was read and is not sent.
func TestWhatIsReadIsInFlight(t *testing.T) {
	r := newRig(t, perIP)
	s := r.stream(t, StreamConfig{Journal: &memoryJournal{}})
	s.SetLag(1)
	s.mustAdd(t, logLine(1, time.Now()))
	s.SetLag(0)
	if got := s.logStatus(); got.Lag != 0 || got.InFlight != 1 {
		t.Errorf("read, and in no cut: %+v", got)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.logStatus(); got.InFlight != 0 {
		t.Errorf("sent: %+v", got)
	}
}

// TestAStreamWaitsWhileTooMuchIsInFlight adds more than may be in flight to a sink that acknowledges nothing.
func TestAStreamWaitsWhileTooMuchIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, perIP)
		r.sink.Mute = true
		j := &memoryJournal{}
		s := r.stream(t, StreamConfig{Journal: j})
		added := make(chan int, 10_000_000)
		go func() {
			for n := range 1000 * lookEvery {
				s.mustAdd(t, logLine(n, time.Now()))
				if n%lookEvery == 0 {
					time.Sleep(2 * cutAfter)
				}
				added <- n
			}
			s.Drain(t.Context())
			close(added)
		}()
		time.Sleep(time.Minute)
		j.mu.Lock()
		if cuts := len(j.cuts); cuts != InFlightCuts {
			t.Errorf("%d cuts are in flight", cuts)
		}
		j.mu.Unlock()
		r.sink.Unmute()
		for range added {
		}
		keys, conflicts := r.sink.Counted(t)
		total := int64(0)
		for _, n := range keys {
			total += n
		}
		if total != 1000*lookEvery || conflicts > 0 {
			t.Errorf("%d hits, %d conflicts", total, conflicts)
		}
	})
}

// TestACutIsMadeAgainAsItWas reads a log twice, the second time from the first one's position with some cuts
// outstanding: the cuts have the same bytes, whatever the reads and the clock.
func TestACutIsMadeAgainAsItWas(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			r := newRig(t, "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: per-path, match: status == 200, key: path, limits: [3/min]}]\n")
			var records [][]byte
			for n := range 2000 + random.IntN(2000) {
				at := time.Now().Add(time.Duration(random.IntN(20)-5) * time.Second) // some ahead, more so by an earlier clock
				records = append(records, logLine(n, at))
			}
			j := &memoryJournal{}
			read := func(s *Stream, from int64) {
				for _, record := range records[from:] {
					s.mustAdd(t, record)
					if random.IntN(100) == 0 {
						time.Sleep(time.Duration(random.IntN(8)) * time.Millisecond)
						if err := s.look(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := s.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			r.sink.Delay = 3 * time.Millisecond
			read(r.stream(t, StreamConfig{Journal: j}), 0)
			outstanding := j.cuts[random.IntN(len(j.cuts)):]
			var remade []Again
			for _, c := range outstanding {
				remade = append(remade, Again{c.From, c.To, c.Clock})
			}
			time.Sleep(time.Hour)
			second := sink.New(3)
			r.pipeline.config.Sink = second
			read(r.stream(t, StreamConfig{Journal: &memoryJournal{}, Position: outstanding[0].From, Again: remade, Fingerprint: outstanding[0].Fingerprint}), outstanding[0].From)
			made := map[int][][]byte{}
			for _, c := range outstanding {
				for _, b := range c.Batches {
					made[b.Partition] = append(made[b.Partition], b.Value)
				}
			}
			for p := range second.Partitions {
				if !slices.EqualFunc(made[p], second.Partitions[p], bytes.Equal) {
					t.Fatalf("seed %d: the batches of partition %d are others", seed, p)
				}
			}
		})
	}
}

// Inline rules are not the collector's: they count nothing, have no series, and do not look like rules that never match.
func TestInlineRulesAreLeftAlone(t *testing.T) {
	const quota = "{name: quota, key: tenant, limits: [10/min], inline: true}"
	for rules, want := range map[string]map[Reason]float64{
		quota: {reasonInline: 2},
		quota + ", {name: b, key: ip, limits: [10/min], match: path == \"/a\"}":                                {reasonMatch: 1},
		"{name: quota, key: path, limits: [10/min], inline: {also: log}}, {name: b, key: user, limits: [1/s]}": {},
	} {
		r := newRig(t, "rules: ["+rules+"]\n")
		r.pipeline.SetRules(r.pipeline.ruling.Load().set, request.NewClient(nil))
		s := r.stream(t, StreamConfig{})
		for _, path := range []string{"/a", "/b"} {
			s.mustAdd(t, fmt.Appendf(nil, `203.0.113.1 - - [%s] "GET %s HTTP/1.1" 200 2 "-" "-"`, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), path))
		}
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, why := range []Reason{reasonInline, reasonAllowed, reasonMatch, reasonKey} {
			if got := testutil.ToFloat64(s.in.metrics.uncounted[why]); got != want[why] {
				t.Errorf("%s: %s: %v, want %v", rules, reasonWords[why], got, want[why])
			}
		}
		series := testutil.CollectAndCount(s.in.metrics.all.hits)
		if inline := strings.Count(rules, "inline: true"); series != strings.Count(rules, "name:")-inline {
			t.Errorf("%s: %d series of hits", rules, series)
		}
	}
}

// TestEveryRequestThatGivesNoHitIsCountedByWhy has one request of each reason.
func TestEveryRequestThatGivesNoHitIsCountedByWhy(t *testing.T) {
	r := newRig(t, `
rules:
  - {name: per-user, match: path != "/health" and path != "/free", key: user, limits: [10/min], cost: 'path == "/nothing" ? 0 : 1', count: served}
allow:
  - {ip: 198.51.100.1}
`)
	r.pipeline.SetRules(r.pipeline.ruling.Load().set, request.NewClient(nil))
	s := r.stream(t, StreamConfig{})
	now := time.Now()
	line := func(ip, user, path string, status int, at time.Time) {
		s.mustAdd(t, fmt.Appendf(nil, `%s - %s [%s] "GET %s HTTP/1.1" %d 2 "-" "-"`, ip, user, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), path, status))
	}
	line("203.0.113.1", "alice", "/", 200, now)
	line("203.0.113.1", "-", "/", 200, now)
	line("203.0.113.1", "alice", "/health", 200, now)
	line("203.0.113.1", "alice", "/nothing", 200, now)
	line("203.0.113.1", "alice", "/", 429, now)
	line("198.51.100.1", "alice", "/", 200, now)
	line("203.0.113.1", "alice", "/", 200, now.Add(time.Hour))
	line("localhost", "alice", "/", 200, now)
	s.mustAdd(t, []byte("nonsense"))
	if err := s.Lost(t.Context(), []byte("long"), ReasonLong, s.position+1); err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for why, want := range map[Reason]float64{reasonKey: 1, reasonMatch: 1, reasonCost: 1, reasonRefused: 1, reasonAllowed: 1, reasonAhead: 1, reasonAddress: 1, ReasonFormat: 1, ReasonLong: 1} {
		if got := testutil.ToFloat64(s.in.metrics.uncounted[why]); got != want {
			t.Errorf("%s: %v, want %v", reasonWords[why], got, want)
		}
	}
	if ahead := s.in.Status("file").Ahead; ahead == nil || ahead.Requests != 1 || now.Sub(ahead.Last).Abs() > time.Minute {
		t.Errorf("the status has %v of one request that is ahead of the clock", ahead)
	}
	if got := testutil.ToFloat64(s.in.metrics.requests); got != 10 {
		t.Errorf("%v requests, want 10", got)
	}
	if got := testutil.ToFloat64(s.in.metrics.all.hits.WithLabelValues("test", "per-user")); got != 1 {
		t.Errorf("%v hits, want 1", got)
	}
	if problems, err := testutil.GatherAndLint(r.metrics); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// TestARequestIsCountedAtItsEnd: a duration that reaches beyond the present is not believed, and the request is counted
// by its beginning. Only a beginning that is ahead is refused.
func TestARequestIsCountedAtItsEnd(t *testing.T) {
	r := newRig(t, perIP)
	in, err := r.pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: "none", Format: "envoy-json"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Millisecond)
	for _, test := range []struct {
		began, took, want time.Duration // from now on
		why               Reason
	}{
		{-time.Hour, time.Hour, 0, Counted},
		{-time.Hour, 0, -time.Hour, Counted},
		{-time.Hour, time.Hour + 5*time.Second, 5 * time.Second, Counted},
		{-time.Hour, 20 * 24 * time.Hour, -time.Hour, Counted},
		{0, time.Hour, 0, Counted},
		{time.Hour, 0, 0, reasonAhead},
		{time.Hour, time.Hour, 0, reasonAhead},
	} {
		s := in.NewStream(StreamConfig{Log: "a log", Source: "a source", Reached: pace.NoTime, NotBefore: pace.NoTime})
		refused := testutil.ToFloat64(s.in.metrics.uncounted[reasonAhead])
		s.mustAdd(t, fmt.Appendf(nil, `{"start_time":%q,"duration":%d,"downstream_remote_address":"203.0.113.7","response_code":200}`,
			now.Add(test.began).UTC().Format(time.RFC3339Nano), test.took.Milliseconds()))
		reached := s.reached
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := testutil.ToFloat64(s.in.metrics.uncounted[reasonAhead]) - refused; (got == 1) != (test.why == reasonAhead) {
			t.Errorf("%+v: refused %v times", test, got)
		}
		if want := now.Add(test.want).UnixMilli(); test.why == Counted && reached != want {
			t.Errorf("%+v: counted at %s", test, time.UnixMilli(reached).UTC())
		}
		s.Close()
	}
}

// A backlog may be of any time before now. Requests of a future time are refused, and the source warns of them.
func TestABacklogOfATimeToComeIsWarnedOf(t *testing.T) {
	for off, want := range map[time.Duration]int{-2 * time.Hour: 0, 2 * time.Hour: 1} {
		r := newRig(t, perIP)
		s := r.stream(t, StreamConfig{})
		for n := range 10 {
			s.mustAdd(t, logLine(n, time.Now().Add(off)))
		}
		if got := strings.Count(r.heard.String(), "far from when they were logged"); got != want {
			t.Errorf("%s off: said %d times, not %d", off, got, want)
		}
	}
}

// TestASourceThatIsReadWronglyIsWarnedOfOnce shows each sign twice.
func TestASourceThatIsReadWronglyIsWarnedOfOnce(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		warning string
		record  func(n int) []byte
	}{
		{"one address makes more than half", func(n int) []byte {
			if n%5 < 3 {
				n = 0
			}
			return logLine(n, now)
		}},
		{"all clients have private addresses", func(n int) []byte {
			return fmt.Appendf(nil, `10.0.0.%d - - [%s] "GET / HTTP/1.1" 200 2 "-" "-"`, n%100, now.UTC().Format("02/Jan/2006:15:04:05 -0700"))
		}},
		{"many records cannot be read", func(n int) []byte {
			if n%10 == 0 {
				return []byte("nonsense?token=secret")
			}
			return logLine(n, now)
		}},
		{"far from when they were logged", func(n int) []byte { return logLine(n, now.Add(-2*time.Hour)) }},
	} {
		t.Run(test.warning, func(t *testing.T) {
			r := newRig(t, perIP)
			s := r.stream(t, StreamConfig{})
			s.watch.live = true
			for n := range 4*watchSpan + 1 {
				s.mustAdd(t, test.record(n))
			}
			if got := strings.Count(r.heard.String(), test.warning); got != 1 {
				t.Errorf("said %d times", got)
			}
			if got := strings.Count(r.heard.String(), "level=WARN"); got != 1 {
				t.Errorf("%d warnings", got)
			}
			if r.heard.Has("secret") {
				t.Error("a secret is shown")
			}
			if err := s.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A rule that asks for a field that the log does not have counts nothing: the source warns of this once.
func TestFieldsThatALogDoesNotHaveAreWarnedOf(t *testing.T) {
	const rules = `rules:
- {name: shop, key: ip, match: 'host == "shop.example"', limits: [5/s]}
- {name: bots, key: ip, match: 'agent contains "curl"', limits: [5/s]}
- {name: both, key: [ip, host], limits: [5/s]}
`
	r := newRig(t, rules)
	s := r.stream(t, StreamConfig{})
	for n := range 4*watchSpan + 1 {
		line := logLine(n, time.Now())
		if n == 7 {
			line = fmt.Appendf(line[:len(line)-len(`"-"`)], `"curl"`)
		}
		if n%50 == 9 { // does not hide that the log has no host
			line = bytes.Replace(line, []byte("GET /"), []byte("GET http://shop.example/"), 1)
		}
		s.mustAdd(t, line)
	}
	if got := strings.Count(r.heard.String(), "no request has a field that rules ask for"); got < 1 || !r.heard.Has(`field=host rules="shop, both"`) {
		t.Errorf("said %d times", got)
	}
	if r.heard.Has("field=ip") || strings.Count(r.heard.String(), "field=host") != 1 {
		t.Error("another field is named, or the same one again")
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A trusted proxy that sends no client address is the client. If it makes most of the requests, the log lacks the
// header.
func TestATrustedProxyWithoutAClientIsCounted(t *testing.T) {
	r := newRig(t, perIP)
	r.pipeline.SetRules(r.pipeline.ruling.Load().set, request.NewClient([]netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}))
	s := r.stream(t, StreamConfig{})
	s.judgeBy(r.pipeline.ruling.Load())
	const requests = 2*watchSpan + 1
	for n := range requests {
		s.mustAdd(t, logLine(20*n, time.Now()))
	}
	if s.tally.requests != requests || s.tally.uncounted != [reasons]int64{} {
		t.Errorf("%d requests, not counted: %v", s.tally.requests, s.tally.uncounted)
	}
	if got := strings.Count(r.heard.String(), "does the log have the header that names clients"); got != 1 {
		t.Errorf("said %d times", got)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A partition that is given up while a cut is made again leaves the cut to the next owner: a part of it would be a
// different cut.
func TestHalfACutIsNotSent(t *testing.T) {
	r := newRig(t, perIP)
	s := r.stream(t, StreamConfig{OneRule: true, Again: []Again{{0, 10, time.Now().UnixMilli()}}, Fingerprint: r.pipeline.Fingerprint()})
	for n := range 5 {
		s.mustAdd(t, logLine(n, time.Now()))
	}
	if err := s.Drain(t.Context()); err != nil || r.sink.Records() > 0 {
		t.Errorf("%d batches are sent, %v", r.sink.Records(), err)
	}
}
