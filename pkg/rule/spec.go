package rule

import (
	"fmt"
	"slices"
	"time"

	"weir/internal/duration"
	"weir/internal/yamlfile"
	"weir/pkg/inline"
	"weir/pkg/window"
)

// The contents of a rules file, as written.

type fileSpec struct {
	Rules []ruleSpec  `yaml:"rules"`
	Allow []allowSpec `yaml:"allow"`
	Paths pathsSpec   `yaml:"paths"`
	Users usersWord   `yaml:"users"`
	Guard guardSpec   `yaml:"guard"`

	SecretFile secretFileSpec `yaml:"secret_file"`
	Crawlers   crawlersSpec   `yaml:"crawlers"`
}

type ruleSpec struct {
	Name        string            `yaml:"name"`
	Description string            `yaml:"description"`
	Match       matchSpec         `yaml:"match"`
	Key         Key               `yaml:"key"`
	On          onWord            `yaml:"on"`
	Above       string            `yaml:"above"`
	Distinct    distinctSpec      `yaml:"distinct"`
	Share       shareSpec         `yaml:"share"`
	Limits      limitsSpec        `yaml:"limits"`
	Late        duration.Duration `yaml:"late"`
	Algorithm   algorithmSpec     `yaml:"algorithm"`
	Cost        costSpec          `yaml:"cost"`
	Count       Count             `yaml:"count"`
	Block       blockSpec         `yaml:"block"`
	Mode        Mode              `yaml:"mode"`
	Remember    rememberSpec      `yaml:"remember"`
	Inline      inlineSpec        `yaml:"inline"`
	OnError     onErrorWord       `yaml:"on_error"`
	Lease       duration.Duration `yaml:"lease"`
	Ends        endsWord          `yaml:"ends"`
	Try         trySpec           `yaml:"try"`
	Queue       queueSpec         `yaml:"queue"`
	Evidence    evidenceSpec      `yaml:"evidence"`
	Secret      bool              `yaml:"secret"`
	Guard       guardSpec         `yaml:"guard"`

	givenLate                   bool
	place, tryPlace, abovePlace yamlfile.Fault
}

type blockSpec struct {
	For    duration.OrForever `yaml:"for"`
	Then   thenSpec           `yaml:"then"`
	Forget duration.Duration  `yaml:"forget"`
	Extend bool               `yaml:"extend"`
	Covers Covers             `yaml:"covers"`
	Until  untilWord          `yaml:"until"`
	After  int64              `yaml:"after"`
	Within duration.Duration  `yaml:"within"`
}

func newRuleSpec() ruleSpec {
	return ruleSpec{Evidence: DefaultEvidence, Block: blockSpec{For: duration.OrForever(DefaultFor), Forget: duration.Duration(DefaultForget)}}
}

// FromYAML reads one rule.
func (r *ruleSpec) FromYAML(v yamlfile.Value) {
	// plain has no methods, or Decode would call FromYAML again.
	type plain ruleSpec
	*r = newRuleSpec()
	v.Decode((*plain)(r))
	if _, isMap := v.Map(); !isMap {
		return
	}

	r.place, r.tryPlace, r.abovePlace = v.Key("name").Place(), v.Key("try").Place(), v.Key("above").Place()
	r.checkName(v)
	for _, needed := range []struct{ key, remedy string }{{"key", "write what to count by, such as key: ip"}, {"limits", "write how many are allowed, such as limits: [10/min]"}} {
		if needed.key == "limits" && (v.Given("queue") || v.Has("share")) {
			continue
		}
		if !v.Given(needed.key) {
			v.Faultf(needed.remedy, "%s has no %s", r.called(), needed.key)
		}
	}

	// Checks of keys together need keys that could be read: one mistake is reported once.
	r.checkGroup(v)
	fits := r.checkDistinct(v)
	r.checkLate(v)
	r.checkShare(v)
	if !v.Key("limits").Faulty() && !v.Key("inline").Faulty() && r.checkAtOnce(v) && !v.Key("algorithm").Faulty() && fits && !v.Has("share") {
		r.checkLimits(v)
	}
	if v.Has("queue") && !v.Key("queue").Faulty() {
		r.checkQueue(v)
	}
	if r.Inline.On {
		r.checkInline(v)
	} else if place := v.Key("on_error"); v.Has("on_error") && !place.Faulty() {
		place.Faultf("write inline: true, or leave it out", "on_error is for rules that are decided inline")
	}
	r.checkTry(v)
	r.checkSecret(v)
	r.checkGuard(v)
	if !v.Key("block").Faulty() {
		r.checkAfter(v)
	}
	if !v.Key("block").Faulty() && (r.countsLog() || r.Block.After > 0) {
		r.checkBlock(v)
	}
}

func (r *ruleSpec) countsLog() bool { return !r.Inline.On || r.Inline.AlsoLog }

func (r *ruleSpec) called() string {
	if r.Name == "" {
		return "the rule"
	}
	return "the rule " + r.Name
}

// rule is the rule of a spec without mistakes.
func (r *ruleSpec) rule() *Rule {
	rule := &Rule{
		Name: r.Name, Description: r.Description, Match: r.Match.written, Key: r.Key, Distinct: r.Distinct.Key, Above: r.Above, Limits: r.Distinct.phrased(r.Limits, bool(r.On)), Share: r.Share.share(),
		Algorithm: r.Algorithm.Name, Subwindows: r.Algorithm.Subwindows, Burst: r.Algorithm.Burst,
		Cost: "1", Count: r.Count, Mode: r.Mode, Inline: r.Inline.On, AlsoLog: r.Inline.AlsoLog, OnError: r.Inline.onError(inline.OnError(r.OnError)), Lease: time.Duration(r.Lease), EndsByLog: bool(r.Ends),
		Block: Block{For: time.Duration(r.Block.For), Forget: time.Duration(r.Block.Forget), Extend: r.Block.Extend, Clear: bool(r.Block.Until), Covers: r.Block.Covers,
			After: r.Block.After, Within: time.Duration(r.Block.Within)},
		Evidence: int(r.Evidence), Secret: r.Secret, Guard: r.Guard.guard(), Try: r.Try, match: r.Match.compiled, onBlocked: bool(r.On), place: r.place, tryPlace: r.tryPlace, abovePlace: r.abovePlace,
	}

	for _, then := range r.Block.Then {
		rule.Block.Then = append(rule.Block.Then, time.Duration(then))
	}

	// A cost that is written as 1 is no cost: without an expression, hits are single requests (window.Config.Ones).
	if r.Cost.compiled != nil && r.Cost.written != rule.Cost {
		rule.Cost, rule.cost = r.Cost.written, r.Cost.compiled
	}

	if r.givenLate {
		late := time.Duration(r.Late)
		rule.Lateness = &late
	}
	// The default stays 0, so that it stays out of the fingerprint.
	if remembered := r.remembered(); remembered != window.DefaultRemember {
		rule.Remember = int(remembered)
	}
	if rule.Block.Covers == CoversMatch && rule.match != nil {
		rule.cover, _ = beforehand(rule.match)
	}
	rule.ofAttempts = !rule.Inline && !rule.onBlocked && rule.match != nil && readsAttempts(rule.match.tree)
	if q := r.Queue; q.Stream != "" {
		rule.Queue = &inline.Queue{Stream: q.Stream, AtMost: q.AtMost, Limit: len(r.Limits)}
		rule.Limits = append(slices.Clone(r.Limits), Limit{Limit: window.Limit{Hits: q.AtMost}, Text: fmt.Sprintf("%d queued", q.AtMost), Queued: true})
	}
	rule.refusals = rule.countsRefusals()
	return rule
}
