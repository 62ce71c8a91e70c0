package backtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/attempts"
	"weir/pkg/inline"
	"weir/pkg/window"
)

// askAt decides an attempt at the first rule of a recorder, and records it.
func (r *recorder) askAt(key string, cost int64) inline.ID {
	var v inline.Verdict
	wants := []inline.Want{{Rule: r.limits[0], Key: []byte(key), Cost: cost}}
	_ = r.memory.Take(context.Background(), &v, wants)
	verdict := attempts.Refused
	switch {
	case v.Taken[0].Admitted:
		verdict = attempts.Admitted
	case r.limits[0].Shadow:
		verdict = attempts.Shadow
	}
	record := attempts.Record{Kind: attempts.Attempt, Time: attempts.Instant(v.At), Admitted: v.Admitted, Order: v.Order,
		Takes: []attempts.Take{{Rule: r.limits[0].Name, Key: key, Cost: cost, Verdict: verdict, Limit: "x"}}}
	if v.Attempt != (inline.ID{}) {
		record.Attempt = v.Attempt.String()
	}
	r.write(&record)
	return v.Attempt
}

func comparisonOf(t testing.TB, c CompareConfig, lines ...[]byte) *Comparison {
	t.Helper()
	c.Records = func(add func([]byte) error) error {
		for _, line := range lines {
			if err := add(bytes.TrimSpace(line)); err != nil {
				return err
			}
		}
		return nil
	}
	made, err := Compare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// clock is a clock that stands where it is set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// Each strategy decides as a rule with that algorithm would have, asked for the same at the same times.
func TestAStrategyDecidesAsARuleWithItsAlgorithm(t *testing.T) {
	type asked struct {
		at   time.Time
		key  string
		cost int64
	}
	random := rand.New(rand.NewPCG(4, 4))
	var all []asked
	at := noon
	for range 3000 {
		at = at.Add(time.Duration(random.IntN(80)) * time.Millisecond)
		all = append(all, asked{at, fmt.Sprintf("key-%d", random.IntN(6)), int64(random.IntN(3))})
	}
	decide := func(algorithm string) *recorder {
		of := &clock{}
		set := parseRules(t, "rules: [{name: quota, key: ip, limits: [6/s, 60/30s], inline: true, algorithm: "+algorithm+"}]")
		r := newRecorder(t, set, "one", of.now)
		for _, one := range all {
			of.at = one.at
			r.askAt(one.key, one.cost)
		}
		return r
	}
	names := []string{"sliding", "fixed", "counter", "token", "uniform", "leaky"}
	set := parseRules(t, "rules: [{name: quota, key: ip, limits: [6/s, 60/30s], inline: true, algorithm: fixed}]")
	made := comparisonOf(t, CompareConfig{Rules: set, Rule: "quota", Algorithms: window.Algorithms()}, decide("fixed").lines...)
	if len(made.Strategies) != len(names) || made.Attempts != 3000 || made.Keys != 6 || !made.Strategies[0].Own || made.Strategies[0].Algorithm != "fixed" {
		t.Fatalf("%+v", made)
	}
	for _, name := range names {
		i := slices.IndexFunc(made.Strategies, func(s Strategy) bool { return s.Algorithm == name })
		s := &made.Strategies[i]
		admitted, refused := int64(0), map[string]int64{}
		for _, line := range decide(name).lines {
			var record attempts.Record
			if err := attempts.Parse(bytes.TrimSpace(line), &record); err != nil {
				t.Fatal(err)
			}
			if record.Admitted {
				admitted++
			} else {
				refused[record.Takes[0].Key]++
			}
		}
		if s.Admitted != admitted || s.Refused != 3000-admitted || len(refused) != int(s.KeysRefused) {
			t.Errorf("%s admits %d and refuses %d of %d keys; a rule would have admitted %d, and refused %d keys", name, s.Admitted, s.Refused, s.KeysRefused, admitted, len(refused))
		}
		for _, key := range s.RefusedMost {
			if refused[key.Key] != key.Refused {
				t.Errorf("%s refuses %+v, a rule %d", name, key, refused[key.Key])
			}
		}
		var asked, passed int64
		for i := range s.OverTime.Asked {
			asked, passed = asked+s.OverTime.Asked[i], passed+s.OverTime.Admitted[i]
		}
		if asked != 3000 || passed != admitted || s.StateBytes < 1 || s.TakeNanos <= 0 || len(s.Most) != 2 {
			t.Errorf("%s: %d asked and %d let through over time; %+v", name, asked, passed, s.Most)
		}
		if s.OverTime.From != made.Strategies[0].OverTime.From || len(s.OverTime.Asked) != len(made.Strategies[0].OverTime.Asked) {
			t.Errorf("%s has other times", name)
		}
	}
}

// The most that gets through is what each algorithm promises: exactly N, or up to 2N around the border of a period.
func TestTheMostThatGetsThrough(t *testing.T) {
	set := parseRules(t, "rules: [{name: quota, key: ip, limits: [10/min], inline: true}]")
	of := &clock{at: noon.Add(50 * time.Second)}
	r := newRecorder(t, set, "one", of.now)
	for range 15 {
		r.askAt("192.0.2.1", 1)
		of.at = of.at.Add(100 * time.Millisecond)
	}
	of.at = noon.Add(61 * time.Second)
	for range 15 {
		r.askAt("192.0.2.1", 1)
		of.at = of.at.Add(100 * time.Millisecond)
	}
	made := comparisonOf(t, CompareConfig{Rules: set, Rule: "quota", Algorithms: []window.Algorithm{window.Sliding, window.Fixed, window.Uniform}}, r.lines...)
	var got []string
	for _, s := range made.Strategies {
		got = append(got, fmt.Sprintf("%s %d/%d %d", s.Algorithm, s.Admitted, s.Refused, s.Most[0].Most))
	}
	// A second of uniform is 1/6 of a hit: one at once, one 6 seconds later.
	if want := "sliding 10/20 10, fixed 20/10 20, uniform 2/28 2"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	if most := made.Strategies[1].Most[0]; most.Key != "192.0.2.1" || most.Limit != "10/min" || most.At != Instant(noon.Add(61*time.Second+900*time.Millisecond).UnixMilli()) {
		t.Errorf("%+v", most)
	}
}

// An attempt has the cost that it was settled to. In shadow mode the attempts that would have been refused count as refused.
func TestStrategiesSettle(t *testing.T) {
	set := parseRules(t, "rules: [{name: quota, key: ip, limits: [4/min], inline: true, mode: shadow}]")
	of := &clock{at: noon}
	r := newRecorder(t, set, "one", of.now)
	for range 3 {
		id := r.askAt("a", 2)
		of.at = of.at.Add(time.Second)
		r.settle(id, "quota", 1)
	}
	last := r.askAt("a", 1)
	r.settle(last, "", inline.Kept) // its cost stays
	r.askAt("a", 1)                 // the fifth, which is one too many
	made := comparisonOf(t, CompareConfig{Rules: set, Rule: "quota"}, r.lines...)
	s := made.Strategies[0]
	if s.Admitted != 4 || s.Refused != 1 || s.Most[0].Most != 4 || len(made.Strategies) != 1 || s.Verdicts[attempts.Shadow] != 1 {
		t.Errorf("%+v", s)
	}
}

// A limit at once decides as it did; the most within a time is of the limits per time.
func TestStrategiesOfALimitAtOnce(t *testing.T) {
	set := parseRules(t, "rules: [{name: quota, key: ip, limits: [10/min, 1 at once], lease: 10m, inline: true}]")
	of := &clock{at: noon}
	r := newRecorder(t, set, "one", of.now)
	for range 3 {
		id := r.askAt("a", 1)
		r.askAt("a", 1) // the first has not ended
		r.settle(id, "", inline.Kept)
		of.at = of.at.Add(time.Second)
	}
	made := comparisonOf(t, CompareConfig{Rules: set, Rule: "quota", Algorithms: []window.Algorithm{window.Token}}, r.lines...)
	for _, s := range made.Strategies {
		if s.Admitted != 3 || s.Refused != 3 || len(s.Most) != 1 || s.Most[0].Most != 3 {
			t.Errorf("%+v", s)
		}
	}
}

// Attempts before the beginning fill the windows, and are not reported; those from the end on are left out.
func TestAComparisonOfSomeTime(t *testing.T) {
	set := parseRules(t, "rules: [{name: quota, key: ip, limits: [3/min], inline: true}]")
	of := &clock{at: noon}
	r := newRecorder(t, set, "one", of.now)
	for i := range 30 {
		of.at = noon.Add(time.Duration(i) * time.Second)
		r.askAt("a", 1)
	}
	since, until := noon.Add(2*time.Second).UnixMilli(), noon.Add(12*time.Second).UnixMilli()
	made := comparisonOf(t, CompareConfig{Rules: set, Rule: "quota", Algorithms: []window.Algorithm{window.Token}, Since: since, Until: until}, r.lines...)
	s := made.Strategies[0]
	if made.Attempts != 10 || s.Admitted != 1 || s.Refused != 9 || s.Most[0].Most != 3 || made.First != Instant(since) || made.Last != Instant(until-1000) || s.OverTime.From != Instant(since) {
		t.Errorf("%+v", made)
	}
	none := comparisonOf(t, CompareConfig{Rules: set, Rule: "quota", Since: noon.Add(time.Hour).UnixMilli()}, r.lines...)
	var b strings.Builder
	if err := none.WriteText(&b, TextOptions{}); err != nil || none.Attempts != 0 || !strings.Contains(b.String(), "0 attempts of 0 keys\n") {
		t.Errorf("%v %s", err, b.String())
	}
	b.Reset()
	if err := none.WriteHTML(&b, HTMLOptions{}); err != nil || !strings.Contains(b.String(), "no attempts") {
		t.Error(err)
	}
}

// Only the algorithm of the named rule changes: others of the same attempts decide as they did.
func TestOtherRulesStay(t *testing.T) {
	set := parseRules(t, replayRules)
	random := rand.New(rand.NewPCG(7, 2))
	one, other := newRecorder(t, set, "one", steps(7)), newRecorder(t, set, "other", steps(8))
	one.run(random, 3000)
	other.run(random, 1000)
	lines := slices.Concat(one.lines, other.lines)
	made := comparisonOf(t, CompareConfig{Rules: set, Rule: "leaky", Algorithms: []window.Algorithm{window.Fixed}, Settle: time.Hour}, lines...)
	if fmt.Sprint(made.Strategies[0].Verdicts) != fmt.Sprint(made.Given) {
		t.Errorf("the rule as it is decides %v, given were %v", made.Strategies[0].Verdicts, made.Given)
	}
	changed := parseRules(t, strings.Replace(replayRules, "algorithm: leaky", "algorithm: fixed", 1))
	if want := replayOf(t, changed, lines...).Rules[3]; want.Rule != "leaky" || fmt.Sprint(made.Strategies[1].Verdicts) != fmt.Sprint(want.Verdicts) {
		t.Errorf("%v, with fixed in the rules %v", made.Strategies[1].Verdicts, want.Verdicts)
	}
	if _, err := Compare(t.Context(), CompareConfig{Rules: set, Rule: "per-ip"}); err == nil {
		t.Error("a rule that is not inline has no attempts")
	}
}

func hostileComparison(t *testing.T) *Comparison {
	set := parseRules(t, "rules: [{name: quota, key: user, limits: [3/min, 20/h], inline: true}]")
	of := &clock{at: noon}
	r := newRecorder(t, set, "one", of.now)
	for i := range 400 {
		of.at = noon.Add(time.Duration(i) * 20 * time.Second)
		for range 1 + i%7 {
			r.askAt("<script>alert(1)</script>\x1b[31m\"' "+strings.Repeat("x", 300*(i%2)), 1)
		}
	}
	r.lines = append(r.lines, []byte("no record"))
	return comparisonOf(t, CompareConfig{Rules: set, Rule: "quota", Algorithms: window.Algorithms()}, r.lines...)
}

func TestAComparisonInWords(t *testing.T) {
	made := hostileComparison(t)
	made.Failed = 2
	for i := range made.Strategies {
		made.Strategies[i].TakeNanos, made.Strategies[i].StateBytes = 100, 200
	}
	var b strings.Builder
	if err := made.WriteText(&b, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"quota  3/min 20/h by user\n  1,597 attempts of 2 keys, 2026-03-01T12:00:00Z to 2026-03-01T14:13:00Z (2 hours 13 minutes)\n  given were ",
		"  2 attempts more came while the shared store failed, or met a full queue: no limit has decided them\n",
		"  1 record could not be read\n", "strategy", "most, 3/min  most, 20/h  memory  ns/attempt\n", "sliding*", "* the rule's own\n",
		"refused by key", "<script>alert(1)</script>?[31m\"' ", "let through, each 15 minutes  asked  sliding*", "2026-03-01T12:00:00Z  ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if t.Failed() || strings.ContainsAny(b.String(), "\x1b") {
		t.Error(b.String())
	}
	var text bytes.Buffer
	if err := made.WriteJSON(&text); err != nil || !json.Valid(text.Bytes()) {
		t.Error(err)
	}
}

// The page has a curve for each strategy, trusts no name, needs nothing else, and keeps its size.
func TestAComparisonAsAPage(t *testing.T) {
	var b strings.Builder
	made := hostileComparison(t)
	if err := made.WriteHTML(&b, HTMLOptions{Version: "1.2.3", Command: "weir compare <quota>"}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, unwanted := range []string{"http://", "https://", "src=", "<link", "@import", "url(", "<script>alert", "<quota>", "ZgotmplZ", "NaN", "%!", "\x1b"} {
		if i := strings.Index(page, unwanted); i >= 0 {
			t.Errorf("%q is in the page: %.80s", unwanted, page[max(0, i-30):])
		}
	}
	for _, wanted := range []string{"&lt;script&gt;alert(1)&lt;/script&gt;", "the rule's own", "most, 20/h", "Over time, each step", "weir compare &lt;quota&gt;"} {
		if !strings.Contains(page, wanted) {
			t.Errorf("%q is missing", wanted)
		}
	}
	if n := strings.Count(page, `<path class="edge"`); n != len(window.Algorithms()) {
		t.Errorf("%d curves", n)
	}
	if len(page) > 200_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
}

// A page of a log has a curve for each algorithm too.
func TestAlgorithmsHaveCurves(t *testing.T) {
	var b strings.Builder
	r := everything(t)
	if err := r.WriteHTML(&b, HTMLOptions{}); err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(b.String(), "The same rules under each algorithm")
	section, _, _ = strings.Cut(section, "</section>")
	for _, a := range r.Algorithms {
		if !strings.Contains(section, `aria-label="`+a.Algorithm+`: let through over time`) {
			t.Errorf("%s has no curve", a.Algorithm)
		}
		var requests, refused int64
		for _, at := range a.plot.bars {
			requests, refused = requests+at.requests, refused+at.refused
		}
		if requests != r.Requests || refused != a.Refused {
			t.Errorf("%s: the curve has %d requests, %d refused; the report %d, %d", a.Algorithm, requests, refused, r.Requests, a.Refused)
		}
	}
}

// A history that goes back to 1970 has few bars, however it is written.
func TestCurvesAreBounded(t *testing.T) {
	set := parseRules(t, "rules: [{name: quota, key: ip, limits: [3/min], inline: true}]")
	var lines [][]byte
	for i, at := range []int64{1, noon.UnixMilli(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()} {
		record := attempts.Record{Kind: attempts.Attempt, Time: attempts.Instant(at), From: "a", Order: uint64(i + 1), Takes: []attempts.Take{{Rule: "quota", Key: "k", Cost: 1, Verdict: "admitted"}}}
		lines = append(lines, attempts.AppendSequence(record.Append(nil), uint64(i)))
	}
	made := comparisonOf(t, CompareConfig{Rules: set, Rule: "quota"}, lines...)
	if n := len(made.Strategies[0].OverTime.Asked); n > 10_000 {
		t.Errorf("%d bars", n)
	}
	var b strings.Builder
	if err := made.WriteText(&b, TextOptions{}); err != nil || strings.Count(b.String(), "\n") > 100 {
		t.Errorf("%v, %d lines", err, strings.Count(b.String(), "\n"))
	}
}

// A rule that has only a queue is no matter of algorithms: one sentence says what the queue has decided.
func TestAComparisonOfAQueue(t *testing.T) {
	set := parseRules(t, `rules:
  - {name: jobs, key: ip, queue: {redis_stream: jobs, at_most: 1}, inline: true, on_error: refuse}
  - {name: both, key: ip, limits: [5/h], queue: {redis_stream: jobs, at_most: 1}, inline: true, on_error: refuse}`)
	r := newRecorder(t, set, "one", (&clock{noon}).now)
	for _, one := range []struct{ verdict, store string }{{attempts.Admitted, ""}, {attempts.Refused, ""}, {attempts.Refused, ""}, {attempts.Failed, "refuse"}, {attempts.Shadow, ""}} {
		for _, name := range []string{"jobs", "both"} {
			r.write(&attempts.Record{Kind: attempts.Attempt, Time: attempts.Instant(noon.UnixMilli()), Store: one.store,
				Takes: []attempts.Take{{Rule: name, Key: "192.0.2.1", Cost: 1, Verdict: one.verdict, Limit: "1 queued"}}})
		}
	}
	of := func(name string, lines ...[]byte) (made *Comparison, text, page string) {
		made = comparisonOf(t, CompareConfig{Rules: set, Rule: name, Algorithms: window.Algorithms()}, lines...)
		var asText, asPage strings.Builder
		if err := made.WriteText(&asText, TextOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := made.WriteHTML(&asPage, HTMLOptions{}); err != nil {
			t.Fatal(err)
		}
		return made, asText.String(), asPage.String()
	}
	const sentence = "the rule has only a queue, which decided the attempts: 1 admitted, 2 refused, 1 failed, 1 shadow; under other algorithms it would decide the same"
	made, text, page := of("jobs", r.lines...)
	if !made.OfQueue() || text != "jobs  1 queued by ip\n  "+sentence+"\n" {
		t.Error(text)
	}
	if !strings.Contains(page, sentence) || strings.Contains(page, "time per attempt") || strings.Contains(page, "NaN") {
		t.Error(page)
	}
	if made.Failed != 3 || fmt.Sprint(made.LeftOut) != "map[failed:1 refused:2]" {
		t.Errorf("%+v", made)
	}
	if made, text, _ := of("jobs", r.lines[2:4]...); !made.OfQueue() || !strings.Contains(text, "0 admitted, 1 refused, 0 failed;") {
		t.Error(text)
	}
	if made, text, page := of("both", r.lines...); made.OfQueue() || !strings.Contains(text, "sliding*") || !strings.Contains(page, "time per attempt") {
		t.Error(text)
	}
	if made, _, _ := of("jobs"); made.OfQueue() {
		t.Error("there are no attempts")
	}
}
