package backtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/pkg/attempts"
	"weir/pkg/inline"
	"weir/pkg/rule"
	"weir/pkg/window"
	"weir/test/real"
)

const replayRules = `
rules:
  - {name: sliding, key: ip, limits: [3/s, 40/30s], inline: true}
  - {name: token, key: ip, limits: [3/s], algorithm: token, inline: true}
  - {name: fixed, key: user, limits: [12/10s], algorithm: fixed, inline: true}
  - {name: leaky, key: user, limits: [3/s], algorithm: leaky, inline: true}
  - {name: uniform, key: ip, limits: [3/s], algorithm: {name: uniform, burst: 2}, inline: true}
  - {name: counter, key: user, limits: [15/10s], algorithm: counter, inline: true, mode: shadow}
  - {name: jobs, key: ip, limits: [4 at once], lease: 3s, inline: true}
  - {name: calls, key: user, limits: [7 at once, 20/10s], lease: 20s, algorithm: token, inline: true}
  - {name: per-ip, key: ip, limits: [10/min]}
`

// A recorder decides attempts by a Memory, as an enforcer does, and records them.
type recorder struct {
	memory *inline.Memory
	from   string
	rules  []*rule.Rule
	limits []*inline.Rule
	now    func() time.Time

	mu       sync.Mutex
	sequence uint64
	lines    [][]byte
}

func newRecorder(t testing.TB, set *rule.Set, from string, now func() time.Time) *recorder {
	t.Helper()
	r := &recorder{memory: inline.New(inline.Config{Now: now, Attempts: 10_000_000, Settle: time.Hour}), from: from, now: now}
	for _, one := range set.Rules {
		if !one.Inline {
			continue
		}
		policy, err := one.InlinePolicy()
		if err != nil {
			t.Fatal(err)
		}
		r.rules, r.limits = append(r.rules, one), append(r.limits, &inline.Rule{Name: one.Name, Policy: policy, Shadow: one.Mode == rule.Shadow})
	}
	return r
}

func (r *recorder) write(record *attempts.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sequence++
	record.From = r.from
	r.lines = append(r.lines, append(attempts.AppendSequence(record.Append(nil), r.sequence), '\n'))
}

// attempt decides an attempt at some rules, and returns its id.
func (r *recorder) attempt(random *rand.Rand) inline.ID {
	var v inline.Verdict
	var wants []inline.Want
	for i := range r.limits {
		if random.IntN(3) == 0 || i == len(r.limits)-1 && wants == nil {
			wants = append(wants, inline.Want{Rule: r.limits[i], Key: fmt.Appendf(nil, "key-%d", random.IntN(5)), Cost: int64(random.IntN(4))})
		}
	}
	if random.IntN(10) == 0 {
		_ = r.memory.TakeOnce(context.Background(), &v, fmt.Sprint(random.IntN(50)), wants)
	} else {
		_ = r.memory.Take(context.Background(), &v, wants)
	}

	record := attempts.Record{Kind: attempts.Attempt, Time: attempts.Instant(v.At), Admitted: v.Admitted, Order: v.Order}
	if v.Attempt != (inline.ID{}) {
		record.Attempt = v.Attempt.String()
	}
	for i := range wants {
		verdict := attempts.Refused
		switch taken := &v.Taken[i]; {
		case wants[i].Known:
			verdict = attempts.Known
		case taken.Admitted && v.Admitted:
			verdict = attempts.Admitted
		case taken.Admitted:
			verdict = attempts.Other
		case wants[i].Rule.Shadow:
			verdict = attempts.Shadow
		}
		record.Takes = append(record.Takes, attempts.Take{Rule: wants[i].Rule.Name, Key: string(wants[i].Key), Cost: wants[i].Cost, Verdict: verdict, Limit: "x", Remaining: v.Taken[i].Remaining})
	}
	r.write(&record)
	return v.Attempt
}

func (r *recorder) settle(id inline.ID, rule string, cost int64) {
	if when, err := r.memory.SettleWhen(rule, id, cost); err == nil {
		r.write(&attempts.Record{Kind: attempts.Settlement, Time: attempts.Instant(when.At), Attempt: id.String(), Rule: rule, Cost: max(0, cost), Ended: cost == inline.Kept, Order: when.Order})
	}
}

// run decides attempts and settles some of them; the last ones may be settled several times.
func (r *recorder) run(random *rand.Rand, count int) {
	var last []inline.ID
	for range count {
		if id := r.attempt(random); id != (inline.ID{}) {
			last = append(last, id)
		}
		if len(last) > 0 && random.IntN(4) == 0 {
			rule := ""
			if random.IntN(2) == 0 {
				rule = r.limits[random.IntN(len(r.limits))].Name
			}
			r.settle(last[random.IntN(len(last))], rule, int64(random.IntN(6)-1))
		}
		last = last[max(0, len(last)-20):]
	}
}

// steps is a clock that moves on by some milliseconds with each look, and now and then back.
func steps(seed uint64) func() time.Time {
	random := rand.New(rand.NewPCG(seed, 1))
	at := time.UnixMilli(1_772_524_800_000)
	return func() time.Time {
		at = at.Add(time.Duration(random.IntN(60)-2) * time.Millisecond)
		return at
	}
}

func replayOf(t testing.TB, set *rule.Set, lines ...[]byte) *ReplayReport {
	t.Helper()
	report, err := Replay(t.Context(), ReplayConfig{Rules: set, Settle: time.Hour, Inputs: []Input{{Path: "attempts", Reader: bytes.NewReader(bytes.Join(lines, nil))}}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func sameAsGiven(t testing.TB, report *ReplayReport) {
	t.Helper()
	if len(report.Differences) > 0 || report.Unread > 0 {
		t.Errorf("%d lines unread; %+v", report.Unread, report.Differences[:min(3, len(report.Differences))])
	}
}

// The verdicts of a replay are those that were given: of all algorithms, several rules at once, any costs, settlements, a
// request that is asked about twice, and a clock that goes back. Records may come in any order, and twice.
func TestAReplayGivesTheSameVerdicts(t *testing.T) {
	set := parseRules(t, replayRules)
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 2))
		one, other := newRecorder(t, set, "one", steps(seed)), newRecorder(t, set, "other", steps(seed+100))
		one.run(random, 4000)
		other.run(random, 2000)
		lines := slices.Concat(one.lines, other.lines)
		lines = append(lines, lines[100:200]...)
		random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		report := replayOf(t, set, lines...)
		sameAsGiven(t, report)
		if report.Attempts != 6000 || report.Settlements < 500 {
			t.Errorf("%d attempts, %d settlements", report.Attempts, report.Settlements)
		}
		for _, of := range report.Rules {
			if of.Verdicts[attempts.Admitted] == 0 || of.Verdicts[attempts.Other] == 0 || of.Verdicts[attempts.Refused]+of.Verdicts[attempts.Shadow] == 0 {
				t.Errorf("too easy: %+v", of)
			}
		}
	}
}

// An attempt that a queue refused stays refused, and does not count: the limits would have admitted it.
func TestAReplayOfWhatAQueueRefused(t *testing.T) {
	set := parseRules(t, `rules: [{name: jobs, key: ip, limits: [2/h], queue: {redis_stream: jobs, at_most: 1}, inline: true, on_error: refuse}]`)
	var lines [][]byte
	for n := range 6 {
		r := attempts.Record{Kind: attempts.Attempt, Time: attempts.Instant(1_772_524_800_000 + n), From: "one", Sequence: uint64(n + 1),
			Takes: []attempts.Take{{Rule: "jobs", Key: "192.0.2.1", Cost: 1, Verdict: attempts.Refused, Limit: "1 queued"}}}
		if n > 3 {
			r.Admitted, r.Takes[0].Verdict, r.Takes[0].Limit = true, attempts.Admitted, "2/h"
		}
		lines = append(lines, append(attempts.AppendSequence(r.Append(nil), r.Sequence), '\n'))
	}
	report := replayOf(t, set, lines...)
	sameAsGiven(t, report)
	if got := report.Rules[0].Verdicts; got[attempts.Refused] != 4 || got[attempts.Admitted] != 2 {
		t.Errorf("%v", got)
	}
}

// Attempts that are decided at the same time have an order, too.
func TestAReplayOfManyCallers(t *testing.T) {
	set := parseRules(t, `rules: [{name: a, key: ip, limits: [50/s], inline: true}, {name: b, key: ip, limits: [70/s], algorithm: token, inline: true}]`)
	r := newRecorder(t, set, "one", time.Now)
	var running sync.WaitGroup
	for caller := range uint64(16) {
		running.Go(func() {
			random := rand.New(rand.NewPCG(caller, 3))
			for range 2000 {
				r.attempt(random)
			}
		})
	}
	running.Wait()
	report := replayOf(t, set, r.lines...)
	sameAsGiven(t, report)
	if report.Attempts != 32_000 || report.Rules[0].Verdicts[attempts.Refused] == 0 {
		t.Errorf("%+v", report)
	}
}

// Other rules than those that decided have other verdicts, and the report shows which.
func TestAReplayShowsDifferences(t *testing.T) {
	set := parseRules(t, "rules: [{name: quota, key: ip, limits: [5/min], inline: true}, {name: gone, key: ip, limits: [5/min], inline: true}]")
	at := int64(1_772_524_800_000)
	r := newRecorder(t, set, "one", func() time.Time { return time.UnixMilli(at) })
	ask := func(i int) {
		var v inline.Verdict
		_ = r.memory.Take(context.Background(), &v, []inline.Want{{Rule: r.limits[i], Key: []byte("203.0.113.7"), Cost: 1}})
		verdict := map[bool]string{true: attempts.Admitted, false: attempts.Refused}[v.Admitted]
		r.write(&attempts.Record{Kind: attempts.Attempt, Time: attempts.Instant(at), Admitted: v.Admitted, Order: v.Order,
			Takes: []attempts.Take{{Rule: r.limits[i].Name, Key: "203.0.113.7", Cost: 1, Verdict: verdict, Limit: "5/min"}}})
		at += 1000
	}
	for range 8 {
		ask(0)
	}
	ask(1)
	r.lines = append(r.lines, []byte("no record\n"))

	report := replayOf(t, parseRules(t, "rules: [{name: quota, key: ip, limits: [6/min], inline: true}]"), r.lines...)
	var text, keys strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	const want = `9 attempts and 0 settlements read, 2026-03-03T08:00:00Z to 2026-03-03T08:00:08Z
1 line could not be read
1 attempt at gone left out: there is no such inline rule here

quota  6/min by ip
  6 admitted, 2 refused; given were 5 admitted, 3 refused
  1 difference:
    2026-03-03T08:00:05Z  203.0.113.7  admitted, was refused
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	if err := report.WriteKeys(&keys); err != nil || keys.String() != "203.0.113.7\n" {
		t.Errorf("%q, %v", keys.String(), err)
	}

	// The same attempts under other algorithms.
	all, err := Replay(t.Context(), ReplayConfig{Rules: set, Algorithms: []window.Algorithm{window.Sliding, window.Fixed, window.Leaky},
		Inputs: []Input{{Path: "attempts", Reader: bytes.NewReader(bytes.Join(r.lines, nil))}}})
	if err != nil {
		t.Fatal(err)
	}
	text.Reset()
	if err := all.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"9 attempts and 0 settlements read", "  5 admitted, 3 refused, as given\n\ngone", "quota under each algorithm\n  sliding   5 admitted, 3 refused\n  fixed     5 admitted, 3 refused\n  leaky  "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if _, err := Replay(t.Context(), ReplayConfig{Rules: parseRules(t, "rules: [{name: per-ip, key: ip, limits: [10/min]}]")}); err == nil {
		t.Error("there is no inline rule")
	}
}

func TestAttemptsAreRecognised(t *testing.T) {
	r := newRecorder(t, parseRules(t, replayRules), "one", time.Now)
	r.attempt(rand.New(rand.NewPCG(1, 1)))
	file := t.TempDir() + "/attempts.json"
	if err := os.WriteFile(file, bytes.Join(r.lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, in := range []Input{{Path: file}, {Path: "-", Reader: bytes.NewReader(bytes.Join(r.lines, nil))}} {
		again, is, err := IsAttempts(t.Context(), in)
		if err != nil || !is {
			t.Errorf("%s: %v, %v", in.Path, is, err)
		}
		report, err := Replay(t.Context(), ReplayConfig{Rules: parseRules(t, replayRules), Inputs: []Input{again}})
		if err != nil || report.Attempts != 1 {
			t.Errorf("%s: %+v, %v", in.Path, report, err)
		}
	}
	if _, is, err := IsAttempts(t.Context(), fromText("log", burst("192.0.2.1", "/", noon, 10))); is || err != nil {
		t.Errorf("a log: %v, %v", is, err)
	}
}

// Millions of attempts are decided as they were: WEIR_REPLAY_ATTEMPTS of them.
func TestAReplayOfMillions(t *testing.T) {
	real.Long(t)
	count, err := strconv.Atoi(os.Getenv("WEIR_REPLAY_ATTEMPTS"))
	if err != nil {
		count = 1_000_000
	}
	set := parseRules(t, replayRules)
	r := newRecorder(t, set, "one", steps(9))
	r.run(rand.New(rand.NewPCG(9, 9)), count)
	began := time.Now()
	report := replayOf(t, set, r.lines...)
	sameAsGiven(t, report)
	if report.Attempts != int64(count) {
		t.Errorf("%d attempts", report.Attempts)
	}
	t.Logf("%d attempts and %d settlements in %v", report.Attempts, report.Settlements, time.Since(began))
}
