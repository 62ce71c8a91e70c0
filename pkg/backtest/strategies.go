package backtest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/pkg/attempts"
	"weir/pkg/inline"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// A CompareConfig describes a comparison of algorithms for one inline rule.
type CompareConfig struct {
	Rules      *rule.Set
	Rule       string
	Algorithms []window.Algorithm // next to the rule's own, which comes first
	// Since and Until bound the attempts that are reported, in Unix milliseconds: from Since on, and before Until. Earlier ones
	// only fill the windows. 0 is no bound.
	Since, Until int64
	// Settle is how long an attempt could be settled; 10 minutes unless given.
	Settle time.Duration
	// Records calls add with each record of the attempts, in any order. It returns the first error of add.
	Records func(add func(record []byte) error) error
}

// A Comparison is how several algorithms judge the same attempts at one rule.
type Comparison struct {
	Rule     string   `json:"rule"`
	Key      string   `json:"key"`
	Limits   []string `json:"limits"`
	Attempts int64    `json:"attempts"`
	Keys     int64    `json:"keys"` // of these attempts
	First    Instant  `json:"first"`
	Last     Instant  `json:"last"`
	Unread   int64    `json:"unread"` // records that could not be read
	// Failed are attempts while the shared store failed, or when a queue was full: no limit has decided them, and they
	// are left out.
	Failed     int64            `json:"failed"`
	LeftOut    map[string]int64 `json:"left_out"` // the verdicts of these
	Given      map[string]int64 `json:"given"`    // the verdicts that were given
	Strategies []Strategy       `json:"strategies"`

	onlyQueue bool // the rule has no limit but a queue
}

// OfQueue reports whether a queue has decided attempts, and no limit can decide any: the rule has only a queue.
func (c *Comparison) OfQueue() bool { return c.onlyQueue && c.Attempts+c.Failed > 0 }

// queueText is what a rule's only queue has decided.
func (c *Comparison) queueText() string {
	all := map[string]int64{}
	for _, verdicts := range []map[string]int64{c.Given, c.LeftOut} {
		for verdict, n := range verdicts {
			all[verdict] += n
		}
	}
	text := fmt.Sprintf("the rule has only a queue, which decided the attempts: %s admitted, %s refused, %s failed",
		grouped(all[attempts.Admitted]), grouped(all[attempts.Refused]), grouped(all[attempts.Failed]))
	for _, verdict := range []string{attempts.Admitted, attempts.Refused, attempts.Failed} {
		delete(all, verdict)
	}
	if len(all) > 0 {
		text += ", " + verdictsText(all)
	}
	return text + "; under other algorithms it would decide the same"
}

// A Strategy is what an algorithm makes of the attempts at a rule.
type Strategy struct {
	Algorithm   string           `json:"algorithm"`
	Own         bool             `json:"own,omitempty"` // it is the rule's, with its settings; others have defaults
	Admitted    int64            `json:"admitted"`
	Refused     int64            `json:"refused"` // also those that shadow mode or a pause let through
	Verdicts    map[string]int64 `json:"verdicts"`
	KeysRefused int64            `json:"keys_refused"`
	RefusedMost []StrategyKey    `json:"refused_most"` // 100 at most
	Most        []StrategyMost   `json:"most"`         // for each limit per time
	StateBytes  int64            `json:"state_bytes"`  // of all windows of the rule, at the end
	TakeNanos   float64          `json:"take_nanos"`   // of one attempt at all of its rules
	OverTime    StrategyTime     `json:"over_time"`

	refused map[string]StrategyKey // of all keys that are refused
	plot    *series
}

// A StrategyKey is a key that an algorithm refuses.
type StrategyKey struct {
	Key      string `json:"key"`
	Attempts int64  `json:"attempts"`
	Refused  int64  `json:"refused"`
}

// A StrategyMost is the most that was let through of one key within the time of a limit, in cost, after settlements.
type StrategyMost struct {
	Limit string  `json:"limit"`
	Most  int64   `json:"most"`
	Key   string  `json:"key,omitempty"`
	At    Instant `json:"at"` // the end of that time
}

// A StrategyTime is how many attempts there were and how many of them were let through, in equal spans of time.
type StrategyTime struct {
	From     Instant `json:"from"`
	Millis   int64   `json:"millis"` // of a span
	Asked    []int64 `json:"asked"`
	Admitted []int64 `json:"admitted"`
}

// Compare decides the attempts at a rule again, by the rule as it is and under each algorithm. Other rules of an attempt are
// as they are in each.
func Compare(ctx context.Context, c CompareConfig) (*Comparison, error) {
	r, err := newReplay(ReplayConfig{Rules: c.Rules, Settle: c.Settle})
	if err != nil {
		return nil, err
	}
	at, inlineRule := r.rules[c.Rule]
	if !inlineRule {
		return nil, fmt.Errorf("there is no inline rule %s", c.Rule)
	}
	of := r.report.rules[at]
	for _, algorithm := range c.Algorithms {
		if algorithm == of.Algorithm {
			continue
		}
		pass, err := r.newPass(&algorithm, c.Rule)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", algorithm, err)
		}
		r.passes = append(r.passes, pass)
		r.report.Algorithms = append(r.report.Algorithms, ReplayAlgorithm{Algorithm: algorithm.String()})
	}
	if err := c.read(r); err != nil {
		return nil, err
	}

	made := &Comparison{Rule: of.Name, Key: of.Key.String(), Unread: r.report.Unread, Given: map[string]int64{}}
	made.onlyQueue = true
	for _, limit := range of.Limits {
		made.Limits = append(made.Limits, limit.Text)
		made.onlyQueue = made.onlyQueue && limit.Queued
	}
	for i := range r.passes {
		r.passes[i].strategy = newStrategy(at, of.Name, c.Since, len(r.words.all))
	}
	r.sort()
	for i := range r.passes {
		if err := r.decideAll(ctx, &r.passes[i]); err != nil {
			return nil, err
		}
		made.add(r, &r.passes[i], i)
	}
	return made, nil
}

// read keeps the records before Until.
func (c *CompareConfig) read(r *replay) error {
	until := cmp.Or(c.Until, math.MaxInt64)
	return c.Records(func(record []byte) error {
		if len(r.records) == maxReplayed {
			return fmt.Errorf("%w; name a shorter time", errManyRecords)
		}
		r.add(record)
		if n := len(r.records); n > 0 && r.records[n-1].at >= until {
			r.records = r.records[:n-1]
		}
		return nil
	})
}

// add adds what came of a pass.
func (c *Comparison) add(r *replay, pass *replayPass, i int) {
	of, s := r.report.rules[pass.strategy.rule], pass.strategy
	if i == 0 {
		c.Attempts, c.Failed, c.LeftOut, c.Given = s.attempts, s.failed, s.without, s.given
		if c.First, c.Last = Instant(s.first), Instant(s.last); s.attempts == 0 {
			c.First, c.Last = 0, 0
		}
	}
	one := Strategy{Algorithm: of.Algorithm.String(), Own: i == 0, Verdicts: s.verdicts, StateBytes: s.bytes, TakeNanos: float64(s.took.Nanoseconds()) / float64(max(s.takes, 1)),
		Admitted: s.verdicts[attempts.Admitted] + s.verdicts[attempts.Known], Refused: s.verdicts[attempts.Refused] + s.verdicts[attempts.Shadow] + s.verdicts[attempts.Paused],
		RefusedMost: []StrategyKey{}, Most: s.most(of, r.words.all), refused: map[string]StrategyKey{}, plot: s.series}
	if i > 0 {
		one.Algorithm = r.report.Algorithms[i-1].Algorithm
	}
	c.Keys = 0
	for number := range s.keys {
		key := &s.keys[number]
		if key.Attempts > 0 {
			c.Keys++
		}
		if key.Refused > 0 {
			key.Key = r.words.all[number]
			one.refused[key.Key] = *key
			one.RefusedMost = append(one.RefusedMost, *key)
		}
	}
	one.KeysRefused = int64(len(one.refused))
	slices.SortFunc(one.RefusedMost, func(a, b StrategyKey) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Key, b.Key))
	})
	one.RefusedMost = slices.Clip(one.RefusedMost[:min(len(one.RefusedMost), mostStrategyKeys)])
	one.OverTime = overTime(s.series)
	c.Strategies = append(c.Strategies, one)
}

const mostStrategyKeys = 100

func overTime(s *series) StrategyTime {
	t := StrategyTime{Millis: s.width(), Asked: []int64{}, Admitted: []int64{}}
	for i, b := range s.bars {
		if i == 0 {
			t.From = Instant(s.start(0))
		}
		t.Asked, t.Admitted = append(t.Asked, b.requests), append(t.Admitted, b.passed())
	}
	return t
}

// A strategy counts what a pass makes of the attempts at one rule. Its methods do nothing for nil.
type strategy struct {
	rule  int
	name  string
	since int64

	attempts, failed, takes int64
	first, last             int64
	given, verdicts         map[string]int64
	without                 map[string]int64 // the verdicts of those that failed
	keys                    []StrategyKey    // by the number of the key
	series                  *series
	passed                  []passed
	took                    time.Duration
	bytes                   int64
}

// A passed is an attempt that was let through and counted.
type passed struct {
	from, key int32
	at, cost  int64 // the cost is the one that it was settled to
}

func newStrategy(rule int, name string, since int64, words int) *strategy {
	return &strategy{rule: rule, name: name, since: since, first: math.MaxInt64, given: map[string]int64{}, verdicts: map[string]int64{}, without: map[string]int64{}, keys: make([]StrategyKey, words), series: &series{most: seriesBars}}
}

func (s *strategy) begin() time.Time {
	if s == nil {
		return time.Time{}
	}
	return time.Now()
}

func (s *strategy) end(began time.Time) {
	if s != nil {
		s.took += time.Since(began)
		s.takes++
	}
}

// note counts the verdicts on an attempt, and returns the places of what it has let through.
func (s *strategy) note(r *replay, one *replayed) (places []int32) {
	if s == nil {
		return nil
	}
	for i := range r.wants {
		take := &r.takes[int(one.first)+i]
		if int(take.rule) != s.rule {
			continue
		}
		given := r.words.all[take.given]
		verdict := r.verdictOf(i, given)
		if taken := &r.verdict.Taken[i]; verdict == attempts.Admitted && take.cost > 0 {
			places = append(places, int32(len(s.passed)))
			s.passed = append(s.passed, passed{from: one.from, key: take.key, at: taken.At, cost: take.cost})
		}
		if one.at < s.since {
			continue
		}

		s.attempts++
		s.first, s.last = min(s.first, one.at), max(s.last, one.at)
		s.given[given]++
		s.verdicts[verdict]++
		key, bar := &s.keys[take.key], s.series.at(one.at)
		key.Attempts++
		bar.requests++
		switch verdict {
		case attempts.Refused, attempts.Shadow, attempts.Paused:
			key.Refused++
			bar.refused++
		case attempts.Other:
			bar.refused++ // it was not let through, though not by this rule
		}
	}
	return places
}

// leftOut counts an attempt that no limit has decided.
func (s *strategy) leftOut(takes []replayedTake, at int64, words []string) {
	if s == nil || at < s.since {
		return
	}
	for i := range takes {
		if int(takes[i].rule) == s.rule {
			s.failed++
			s.without[words[takes[i].given]]++
		}
	}
}

// settle changes what attempts have cost, if the settlement is of the rule; one without a name is of all.
func (s *strategy) settle(places []int32, name string, cost int64) {
	if s == nil || cost == inline.Kept || name != "" && name != s.name {
		return
	}
	for _, i := range places {
		s.passed[i].cost = cost
	}
}

// measure adds the windows of a Memory: the largest one counts, because each enforcer has its own.
func (s *strategy) measure(m *inline.Memory, of *inline.Rule) {
	var bytes int64
	m.All([]*inline.Rule{of}, func(_ *inline.Rule, _ string, state *window.State, _ int64) { bytes += int64(state.Bytes()) })
	s.bytes = max(s.bytes, bytes)
}

// most finds for each limit the most that was let through of a key within its time.
func (s *strategy) most(of *rule.Rule, words []string) []StrategyMost {
	slices.SortFunc(s.passed, func(a, b passed) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at))
	})
	all := []StrategyMost{}
	for _, limit := range of.Limits {
		if limit.AtOnce {
			continue // its attempts cost nothing any more once they have ended
		}
		all = append(all, StrategyMost{Limit: limit.Text})
		most := &all[len(all)-1]
		sum, oldest := int64(0), 0
		for n, p := range s.passed {
			for o := s.passed[oldest]; oldest < n && (o.from != p.from || o.key != p.key || o.at <= p.at-limit.Per.Milliseconds()); o = s.passed[oldest] {
				sum -= o.cost
				oldest++
			}
			if sum += p.cost; sum > most.Most && p.at >= s.since {
				most.Most, most.Key, most.At = sum, words[p.key], Instant(p.at)
			}
		}
	}
	return all
}
