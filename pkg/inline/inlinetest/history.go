package inlinetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/pkg/attempts"
	"weir/pkg/inline"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
)

// A HistoryPlace is a BackendPlace whose Backends keep a history.
type HistoryPlace struct {
	BackendPlace
	Rows func(t testing.TB) []Row // all of them
}

// A Row is one of the history as it is stored.
type Row = stored.Row

// RunHistory runs the tests of a stored.History, each in a new Place.
func RunHistory(t *testing.T, open func(t *testing.T) *HistoryPlace) {
	for _, one := range []struct {
		name string
		run  func(*testing.T, *HistoryPlace)
	}{
		{"rows of what has counted", rowsOfWhatCounted},
		{"no rows of what was returned", rowsReturned},
		{"rows are added once", rowsAddedOnce},
		{"any keys", anyKeys},
		{"rows are found by their keys", rowsByKeys},
		{"each attempt once, whatever is killed", eachOnce},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(t, open(t)) })
	}
}

func (p *HistoryPlace) store(t testing.TB, find func(string) *inline.Rule) *stored.Store {
	s := stored.New(stored.Config{Backend: p.Open(t), Rule: find, History: true, Slack: time.Second})
	t.Cleanup(s.Close)
	return s
}

// limited is a rule of two limits, whose texts are known.
func limited(t testing.TB, name string, small, large int64) *inline.Rule {
	rule := NewRule(t, name, window.Sliding, window.Limit{Hits: small, Per: time.Minute}, window.Limit{Hits: large, Per: time.Hour})
	rule.Limits = []string{fmt.Sprint(small, "/min"), fmt.Sprint(large, "/hour")}
	return rule
}

func rowsOfWhatCounted(t *testing.T, p *HistoryPlace) {
	rules := Rules{limited(t, "quota", 5, 100), limited(t, "tokens", 1000, 700)}
	quota, tokens := rules[0], rules[1]
	s, other := p.store(t, rules.Find), p.store(t, rules.Find)
	v := askFor(t, s, of(quota, "a", 1), of(tokens, "a b", 300), of(quota, "a", 2), of(quota, "c", 0))
	once := func() (v inline.Verdict) {
		if err := s.TakeOnce(ctx, &v, "request", []inline.Want{of(quota, "once", 1)}); err != nil {
			t.Error(err)
		}
		return v
	}
	named := once()
	once()
	askFor(t, s, of(quota, "a", 3))    // is refused
	askFor(t, s, of(tokens, "a b", 0)) // asks only

	row := func(v *inline.Verdict, n int, rule, key string, part int, cost int64, limit string) Row {
		return Row{Attempt: stored.Attempt{ID: v.Attempt, Rule: rule, Key: key, Part: part, At: v.Taken[n].At, Cost: cost, Verdict: attempts.Admitted,
			Limit: limit, Remaining: v.Taken[n].Remaining}}
	}
	want := []Row{
		row(&v, 0, "quota", "a", 0, 1, "5/min"), row(&v, 2, "quota", "a", 1, 2, "5/min"), row(&v, 1, "tokens", "a b", 0, 300, "700/hour"),
		row(&named, 0, "quota", "once", 0, 1, "5/min"),
	}
	p.have(t, want)

	if err := other.SettleAt(ctx, "tokens", v.Attempt, 450); err != nil {
		t.Fatal(err)
	}
	want[2].Settled = new(int64(450))
	p.have(t, want)
	if err := s.Settle(ctx, v.Attempt, inline.Kept); err != nil {
		t.Fatal(err)
	}
	want[0].Settled, want[1].Settled = new(int64(1)), new(int64(2))
	p.have(t, want)
	for range 2 { // the second time nothing changes
		if err := other.Settle(ctx, v.Attempt, 2); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			want[i].Settled = new(int64(2))
		}
		p.have(t, want)
	}
}

// have checks all rows. Of settlements it checks that the time is that of the attempt, or soon afterwards.
func (p *HistoryPlace) have(t *testing.T, want []Row) {
	t.Helper()
	text := func(all []Row) []string {
		var lines []string
		for _, r := range all {
			settled := "-"
			if r.Settled != nil {
				settled = fmt.Sprint(*r.Settled)
			}
			lines = append(lines, fmt.Sprintf("%+v settled %s", r.Attempt, settled))
		}
		slices.Sort(lines)
		return lines
	}
	got := p.Rows(t)
	if have, should := text(got), text(want); !slices.Equal(have, should) {
		t.Errorf("there are\n%s\nand not\n%s", strings.Join(have, "\n"), strings.Join(should, "\n"))
	}
	for _, r := range got {
		if r.Settled != nil && (r.SettledAt < r.At || r.SettledAt > r.At+60_000) {
			t.Errorf("it was settled %d ms after the attempt: %+v", r.SettledAt-r.At, r)
		}
	}
}

// rowsReturned: an attempt that one key admits and another refuses has no row, whichever was asked first.
func rowsReturned(t *testing.T, p *HistoryPlace) {
	full, wide := limited(t, "full", 1, 1), limited(t, "wide", 1000, 1000)
	first := askFor(t, p.store(t, nil), of(full, "a", 1))
	for range 4 {
		// A process that does not know yet that the rule refuses takes at both.
		if v := askFor(t, p.store(t, nil), of(wide, "a", 1), of(full, "a", 1), of(wide, "b", 1)); v.Admitted {
			t.Errorf("%+v", v)
		}
	}
	rows := p.Rows(t)
	if len(rows) != 1 || rows[0].ID != first.Attempt {
		t.Errorf("%+v", rows)
	}
}

func rowsAddedOnce(t *testing.T, p *HistoryPlace) {
	b, rule := p.Open(t).(stored.History), limited(t, "quota", 5, 100)
	v := askFor(t, p.store(t, nil), of(rule, "a", 1))
	counted := p.Rows(t)
	var want []Row
	var batch []stored.Attempt
	for n := range 600 {
		one := stored.Attempt{ID: inline.ID{1, byte(n), byte(n >> 8)}, Rule: "quota", Key: "a", At: 1_700_000_000_000 + int64(n/7), Cost: 1, Verdict: attempts.Refused, Limit: "5/min"}
		switch n % 3 {
		case 1:
			one.Verdict, one.Store, one.Limit = attempts.Failed, "allow", ""
		case 2:
			one.Remaining, one.Part, one.ID = 1<<60, 1, inline.ID{1, byte(n - 1), byte((n - 1) >> 8)}
		}
		batch, want = append(batch, one), append(want, Row{Attempt: one})
	}
	add := func(rows ...stored.Attempt) {
		if err := b.Add(ctx, rows); err != nil {
			t.Error(err)
		}
	}
	add(batch[:300]...)
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() { add(batch...) })
	}
	running.Wait()
	again := counted[0].Attempt
	again.Verdict, again.Cost = "other", 9
	add(append([]stored.Attempt{again}, batch[100:200]...)...)
	p.have(t, append(want, counted...))
	if counted[0].ID != v.Attempt {
		t.Errorf("%+v", counted)
	}
}

// anyKeys: no key makes an attempt fail, changes a statement, or is taken for another. A rule's key is printable.
func anyKeys(t *testing.T, p *HistoryPlace) {
	s, rule := p.store(t, nil), limited(t, `it's "quota"; -- \`, 5, 100)
	var want []Row
	for _, key := range []string{
		`'; DROP TABLE weir_inline_history; --`, `' OR '1'='1`, `\'; DELETE FROM weir_inline_history; -- `, `"`, "`", `\`, `\\'`, `$1`, `:n ? %s {`, "a", "A", "a ", " a",
		"ä", "日本語", "\U0001f600", `\x00\xff`, "…#", strings.Repeat("ü", 128), strings.Repeat("\U0001f600", 64), `NULL`, "",
	} {
		v := askFor(t, s, of(rule, key, 1))
		want = append(want, Row{Attempt: stored.Attempt{ID: v.Attempt, Rule: rule.Name, Key: key, At: v.Taken[0].At, Cost: 1, Verdict: attempts.Admitted,
			Limit: "5/min", Remaining: 4}})
	}
	p.have(t, want)

	// Of a program that asks a Store for other keys.
	for _, key := range []string{"\x00", "\xff\xfe", "\xe4 \x1a\n\r\t", string(slices.Repeat([]byte{0, 200}, 200))} {
		if v := askFor(t, s, of(rule, key, 1)); !v.Admitted {
			t.Errorf("%q: %+v", key, v)
		}
	}
	if n := len(p.Rows(t)); n != len(want)+4 {
		t.Errorf("%d rows of %d attempts", n, len(want)+4)
	}
}

// eachOnce: each attempt that counts has a row, while the database is killed, callers give up, attempts are settled, and
// others refuse. Then the rows have exactly the costs that are counted.
func eachOnce(t *testing.T, p *HistoryPlace) {
	const keys, most = 3, 1_000_000
	rules := Rules{limited(t, "quota", most, most), limited(t, "few", 40, 40)}
	var all sync.Map // of the attempts that were admitted
	var admitted atomic.Int64
	var stopped atomic.Bool
	var running sync.WaitGroup
	for range 3 {
		s := p.store(t, rules.Find)
		untilOne(t, s, of(rules[0], "0", 0))
		for n := range 8 {
			running.Go(func() {
				for i := n; !stopped.Load(); i++ {
					key := fmt.Sprint(i % keys)
					wants := []inline.Want{of(rules[0], key, 2)}
					if i%5 == 0 {
						wants = append(wants, of(rules[1], key, 1))
					}
					v, err := try(s, wants...)
					if err != nil || !v.Admitted {
						time.Sleep(time.Millisecond)
						continue
					}
					admitted.Add(1)
					all.Store(v.Attempt, true)
					if i%4 == 0 {
						_ = trySettle(s, v.Attempt, 1) // it may fail while the database is away
					}
				}
			})
		}
	}
	time.Sleep(200 * time.Millisecond)
	for range 2 {
		if p.Kill != nil {
			p.Kill()()
		}
		time.Sleep(300 * time.Millisecond)
	}
	stopped.Store(true)
	running.Wait()
	time.Sleep(1100 * time.Millisecond) // what is still returned

	rows, cost := p.Rows(t), map[string]int64{}
	for _, r := range rows {
		if all.Delete(r.ID); r.Settled != nil {
			r.Cost = *r.Settled
		}
		cost[r.Rule+" "+r.Key] += r.Cost
	}
	all.Range(func(id, _ any) bool {
		t.Errorf("the attempt %s was admitted, and has no row", id)
		return true
	})
	s := p.store(t, rules.Find)
	for _, rule := range rules {
		for n := range keys {
			key := fmt.Sprint(n)
			untilOne(t, s, of(rule, key, 0))
			_, err := s.Peek(ctx, rule, []byte(key), func(state *window.State, at int64) {
				if counted := rule.Policy.Count(state, 1, at); counted != cost[rule.Name+" "+key] {
					t.Errorf("%s %s: %d are counted, and the rows have %d", rule.Name, key, counted, cost[rule.Name+" "+key])
				}
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d rows, %d admitted", len(rows), admitted.Load())
	if admitted.Load() < 30 {
		t.Errorf("%d were admitted: the traffic shows too little", admitted.Load())
	}
}

// rowsByKeys: the newest rows of keys are found, the newest first, with their settlements.
func rowsByKeys(t *testing.T, p *HistoryPlace) {
	quota, few := limited(t, "quota", 50, 100), limited(t, "few", 50, 100)
	b, s := p.Open(t).(stored.Reader), p.store(t, Rules{quota, few}.Find)
	var last inline.Verdict
	for n := range 6 {
		if last = askFor(t, s, of(quota, "a", 1), of(few, "a b", 2), of(quota, "a", 3)); n < 3 {
			askFor(t, s, of(quota, "b", 1))
		}
	}
	if err := s.SettleAt(ctx, "quota", last.Attempt, 7); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		q    stored.Query
		want int
	}{
		{stored.Query{Keys: []string{"a"}, Most: 100}, 12},
		{stored.Query{Keys: []string{"b", "a b", "none", "'"}, Most: 100}, 9},
		{stored.Query{Keys: []string{"a", "a b"}, Rule: "few", Most: 100}, 6},
		{stored.Query{Keys: []string{"a"}, Most: 5}, 5},
		{stored.Query{Keys: []string{"a"}, From: last.Taken[0].At + 1, Most: 100}, 0},
		{stored.Query{Keys: []string{"A"}, Most: 100}, 0},
	} {
		got, err := b.Rows(ctx, &one.q)
		if err != nil || len(got) != one.want {
			t.Errorf("%+v: %d rows, %v", one.q, len(got), err)
		}
		if !slices.IsSortedFunc(got, func(x, y Row) int { return cmp.Compare(y.At, x.At) }) {
			t.Errorf("%+v: they are not sorted", one.q)
		}
	}

	all, err := b.Rows(ctx, &stored.Query{Keys: []string{"a", "b", "a b"}, Most: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if (all[i].Settled != nil) != (all[i].SettledAt >= all[i].At) {
			t.Errorf("%+v", all[i])
		}
	}
	p.have(t, all)
}
