package backtest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"weir/pkg/attempts"
	"weir/pkg/inline"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// A ReplayConfig describes a replay of attempts at inline rules.
type ReplayConfig struct {
	Rules  *rule.Set
	Inputs []Input
	// Algorithms are those under which the attempts are decided too, each time all rules under one.
	Algorithms []window.Algorithm
	// Settle is how long an attempt could be settled; 10 minutes unless given. An id that comes again later is of another
	// attempt.
	Settle   time.Duration
	Progress func(done, total int64) // as Config.Progress; nil is none
}

const (
	maxReplayed    = 50_000_000 // records: a record takes some 150 bytes
	maxDifferences = 1000       // that a report has one by one
	longestRecord  = 1 << 20
)

// IsAttempts reports whether an input has records of attempts at inline rules, by its first line. The input that it returns
// begins there too.
func IsAttempts(ctx context.Context, in Input) (Input, bool, error) {
	if in.Reader != nil {
		head := bufio.NewReader(in.Reader)
		in.Reader = head
		line, err := head.Peek(64)
		if err != nil && !errors.Is(err, io.EOF) {
			return in, false, err
		}
		return in, attempts.Is(string(line)), nil
	}
	s, err := openSource(ctx, in, new(atomic.Int64))
	if err != nil {
		return in, false, nil //nolint:nilerr // Run reports it
	}
	line, _ := s.Peek(64) // a file that is damaged here is reported by Run
	return in, attempts.Is(string(line)), s.Close()
}

// Replay decides attempts again, by these rules, in the order in which they were decided, and settles what was settled. With
// the rules that decided them, the verdicts are those that were given, unless a key was forgotten then or the clock was set
// back. The attempts of each enforcer, from one start to the next, are decided by themselves.
func Replay(ctx context.Context, c ReplayConfig) (*ReplayReport, error) {
	r, err := newReplay(c)
	if err != nil {
		return nil, err
	}
	for _, algorithm := range c.Algorithms {
		pass, err := r.newPass(&algorithm, "")
		if err != nil {
			return nil, err
		}
		r.passes = append(r.passes, pass)
		r.report.Algorithms = append(r.report.Algorithms, ReplayAlgorithm{algorithm.String(), pass.into})
	}
	for _, in := range c.Inputs {
		if err := r.read(ctx, in, c.Progress); err != nil {
			return nil, err
		}
	}
	r.sort()
	for i := range r.passes {
		if err := r.decideAll(ctx, &r.passes[i]); err != nil {
			return nil, err
		}
	}
	return r.report, nil
}

// decideAll decides all attempts once.
func (r *replay) decideAll(ctx context.Context, pass *replayPass) error {
	r.pass, r.memory = pass, nil
	for i := range r.records {
		if i%100_000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.decide(&r.records[i])
	}
	r.leaveMemory()
	return nil
}

// leaveMemory is called when a Memory has decided all that it decides.
func (r *replay) leaveMemory() {
	if s := r.pass.strategy; s != nil && r.memory != nil {
		s.measure(r.memory, r.pass.limits[s.rule].enforced)
	}
}

// A replayPass is the limits under which all attempts are decided once, and what becomes of them.
type replayPass struct {
	limits []inlineLimits
	into   []ReplayRule
	first  bool // by the rules as they are: it counts the records, and has the differences

	strategy *strategy // what else is counted for a comparison; nil for none
}

// A replay is the state of Replay.
type replay struct {
	report  *ReplayReport
	rules   map[string]int // of report.Rules
	passes  []replayPass
	words   texts // of keys, and of those that counted
	records []replayed
	takes   []replayedTake
	line    attempts.Record

	pass    *replayPass
	from    int32
	memory  *inline.Memory
	now     int64
	settle  int64                     // milliseconds
	known   map[inline.ID]*replayedID // where the attempt is settled
	settled map[inline.ID]bool
	wants   []inline.Want
	verdict inline.Verdict
}

type inlineLimits struct{ enforced, shadow *inline.Rule }

func newReplay(c ReplayConfig) (*replay, error) {
	r := &replay{report: &ReplayReport{LeftOut: map[string]int64{}, Differences: []ReplayDifference{}, First: math.MaxInt64}, rules: map[string]int{},
		words: texts{numbers: map[string]int32{}}, settled: map[inline.ID]bool{}, settle: cmp.Or(c.Settle, 10*time.Minute).Milliseconds()}
	for _, one := range c.Rules.Rules {
		if one.Inline {
			r.rules[one.Name] = len(r.report.rules)
			r.report.rules = append(r.report.rules, one)
		}
	}
	if len(r.report.rules) == 0 {
		return nil, errors.New("none of these rules is inline, and the input has attempts at inline rules; name the rules that decided them with --rules")
	}

	pass, err := r.newPass(nil, "")
	if err != nil {
		return nil, err
	}
	pass.first = true
	r.report.Rules, r.passes = pass.into, append(r.passes, pass)
	return r, nil
}

// newPass makes the limits of the rules. If an algorithm is given, those of one rule are under it, or of all without a name.
func (r *replay) newPass(under *window.Algorithm, name string) (pass replayPass, err error) {
	for _, one := range r.report.rules {
		of := one
		if under != nil && (name == "" || name == one.Name) {
			of = one.Under(*under)
		}
		policy, err := of.InlinePolicy()
		if err != nil {
			return pass, fmt.Errorf("the rule %s: %w", one.Name, err)
		}
		pass.limits = append(pass.limits, inlineLimits{&inline.Rule{Name: one.Name, Policy: policy, Shadow: one.Mode == rule.Shadow}, &inline.Rule{Name: one.Name, Policy: policy, Shadow: true}})
		pass.into = append(pass.into, ReplayRule{Rule: one.Name, Verdicts: map[string]int64{}, Given: map[string]int64{}})
	}
	return pass, nil
}

var errManyRecords = fmt.Errorf("more than %s records cannot be replayed together", grouped(maxReplayed))

// decide decides an attempt, or settles one.
func (r *replay) decide(one *replayed) {
	if r.memory == nil || r.from != one.from {
		r.leaveMemory()
		r.from, r.known = one.from, map[inline.ID]*replayedID{}
		r.memory = inline.New(inline.Config{Keys: 1 << 30, Attempts: 1 << 30, Settle: 100 * 365 * 24 * time.Hour, Now: func() time.Time { return time.UnixMilli(r.now) }})
	}
	r.now = one.at
	if one.settlement {
		r.report.Settlements += r.pass.one()
		r.settleOne(one)
		return
	}

	r.report.Attempts += r.pass.one()
	takes := r.takes[one.first : one.first+one.n]
	if one.without {
		r.pass.strategy.leftOut(takes, one.at, r.words.all)
		for i := range takes {
			r.compare(one, &takes[i], r.words.all[takes[i].given])
		}
		return
	}
	r.wants = r.wants[:0]
	for i := range takes {
		limits, given := &r.pass.limits[takes[i].rule], r.words.all[takes[i].given]
		want := inline.Want{Rule: limits.enforced, Key: []byte(r.words.all[takes[i].key]), Cost: takes[i].cost, Known: given == attempts.Known}
		if given == attempts.Shadow || given == attempts.Paused {
			want.Rule = limits.shadow // as it was then
		}
		r.wants = append(r.wants, want)
	}
	if len(r.wants) == 0 {
		return
	}
	began := r.pass.strategy.begin()
	_ = r.memory.Take(context.Background(), &r.verdict, r.wants) // a Memory never fails
	r.pass.strategy.end(began)
	passed := r.pass.strategy.note(r, one)
	if r.verdict.Attempt != (inline.ID{}) && r.settled[one.id] {
		known := r.known[one.id]
		if known == nil || known.at <= r.now-r.settle {
			known = &replayedID{at: r.now}
			r.known[one.id] = known
		}
		known.ids = append(known.ids, r.verdict.Attempt)
		known.passed = append(known.passed, passed...)
	}
	for i := range takes {
		r.compare(one, &takes[i], r.verdictOf(i, r.words.all[takes[i].given]))
	}
}

// one is 1 in the pass that counts records.
func (p *replayPass) one() int64 {
	if p.first {
		return 1
	}
	return 0
}

func (r *replay) settleOne(one *replayed) {
	known := r.known[one.id]
	if known == nil {
		return
	}
	name := ""
	if one.rule >= 0 {
		name = r.words.all[one.rule]
	}
	r.pass.strategy.settle(known.passed, name, one.cost)
	for _, id := range known.ids {
		_, _ = r.memory.SettleWhen(name, id, one.cost) // of an attempt at several rules perhaps another part is meant
	}
}

// verdictOf is the verdict on the i-th Want.
func (r *replay) verdictOf(i int, given string) string {
	admits := r.verdict.Taken[i].Admitted
	switch {
	case r.wants[i].Known:
		return attempts.Known
	case admits && r.verdict.Admitted:
		return attempts.Admitted
	case admits:
		return attempts.Other
	case !r.wants[i].Rule.Shadow:
		return attempts.Refused
	case given == attempts.Paused:
		return attempts.Paused
	}
	return attempts.Shadow
}

// compare counts a verdict, and notes one that is not the one that was given.
func (r *replay) compare(one *replayed, take *replayedTake, now string) {
	of, given := &r.pass.into[take.rule], r.words.all[take.given]
	of.Verdicts[now]++
	of.Given[given]++
	if now == given {
		return
	}
	if of.Differences++; r.pass.first && len(r.report.Differences) < maxDifferences {
		r.report.Differences = append(r.report.Differences, ReplayDifference{Time: Instant(one.at), Rule: of.Rule, Key: r.words.all[take.key], Given: given, Now: now})
	}
}
