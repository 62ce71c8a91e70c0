package rule

import (
	"strings"

	"weir/pkg/request"
)

// A Reason is why a request is a hit of a rule or is not.
type Reason uint8

// The reasons, in the order in which they are checked.
const (
	Counted Reason = iota // it is a hit
	Inline                // the rule is decided inline, and does not count the log
	Allowed               // an allow entry applies to it
	NoMatch               // the rule's match is not true for it
	Failed                // the match, the cost or the condition of the share could not be computed, as when it divides by zero
	Refused               // an enforcer refused it, and the rule counts served requests
	NoKey                 // it lacks a part of the rule's key, or a field whose different values count
	NoCost                // its cost is below 1
	Reasons               // the number of reasons
)

var reasonWords = [Reasons]string{"counted", "inline", "allowed", "match", "expression", "refused", "key", "cost"}

// String is the reason as metrics name it.
func (r Reason) String() string { return reasonWords[r] }

// A Hit is one request counted by one rule.
type Hit struct {
	Rule int    // index in Set.Rules
	Key  []byte // canonical
	Cost int64  // at least 1

	Value uint64 // of the fields whose different values the rule counts; 1 of a hit that meets the condition of its share; else 0
}

// A Judge finds the hits of requests. It has the memory for one request, so one goroutine uses it.
type Judge struct {
	set      *Set
	subject  subject
	exempt   []bool // rules that leave the request alone
	outcomes []Reason
	counts   [][Reasons]int64
	hits     []Hit
	keys     []byte
	masked   request.Request
	masks    []byte // texts of masked
	secrets  []shownSecret
	groups   []GroupHit
	watches  bool // the networks of group rules

	networkOf request.Request // that Networks was asked about
}

// NewJudge makes a Judge of the set.
func (s *Set) NewJudge() *Judge {
	n := len(s.Rules)
	j := &Judge{
		set: s, subject: subject{paths: s.Paths}, exempt: make([]bool, n), outcomes: make([]Reason, n), counts: make([][Reasons]int64, n), hits: make([]Hit, 0, n),
		keys: make([]byte, 0, 128*n),
	}
	if s.places != nil {
		j.subject.finder = s.places.NewFinder()
	}
	return j
}

// Hits are the hits of a request of a log, one a rule at most, in the order of the rules. They are valid until the next
// call.
func (j *Judge) Hits(r *request.Request) []Hit {
	j.subject.about(r)
	j.hits, j.keys = j.hits[:0], j.keys[:0]
	all := j.set.allowed.exempts(&j.subject, j.exempt)
	for i, rule := range j.set.Rules {
		reason := Allowed
		switch {
		case rule.onBlocked && j.watches:
			continue // networks
		case !rule.CountsLog():
			reason = Inline
		case rule.ofAttempts != (r.Take != nil):
			reason = NoMatch
		case !all && !j.exempt[i]:
			reason = j.judge(i, rule)
		}
		j.note(i, reason)
	}
	j.networks()
	return j.hits
}

func (j *Judge) note(i int, reason Reason) {
	j.outcomes[i] = reason
	j.counts[i][reason]++
}

func (j *Judge) judge(i int, rule *Rule) Reason {
	if reason := rule.wants(&j.subject); reason != Counted {
		return reason
	}
	return j.count(i, rule)
}

// count adds the hit of a request that the rule wants.
func (j *Judge) count(i int, rule *Rule) Reason {
	// The keys of all hits share one buffer. A key that turns out to be of no hit is overwritten by the next.
	start := len(j.keys)
	keys, ok := rule.Key.append(j.keys, &j.subject)
	if !ok {
		return NoKey
	}

	var value uint64
	if rule.CountsDistinct() {
		if value, ok = j.subject.value(rule, keys[start:]); !ok {
			return NoKey
		}
	}
	if rule.CountsShare() {
		if value, ok = rule.Share.value(&j.subject); !ok {
			return Failed
		}
	}

	cost, ok := rule.costOf(&j.subject)
	if !ok {
		return Failed
	}
	if cost < 1 {
		return NoCost
	}

	j.keys = keys
	j.hits = append(j.hits, Hit{Rule: i, Key: keys[start:len(keys):len(keys)], Cost: cost, Value: value})
	return Counted
}

// wants is Counted if the rule counts the request, apart from its key and cost, else the reason why not.
func (r *Rule) wants(s *subject) Reason {
	if r.match != nil {
		matches, ok := r.match.matches(s)
		if !ok {
			return Failed
		}
		if !matches {
			return NoMatch
		}
	}

	if r.Count == Served && refused(s.Request) {
		return Refused
	}
	return Counted
}

// refusedField is the field in which an edge logs the decision of our enforcer.
const refusedField = "weir"

// refused reports whether an enforcer refused the request: by the field weir if the log has it, else by the status 429.
func refused(r *request.Request) bool {
	if decision := field(r, refusedField); decision != "" && !strings.HasPrefix(decision, "lease ") { // names only an attempt
		return strings.HasPrefix(decision, "refused")
	}
	return r.Status == 429
}

// costOf is the cost of the request, an integer up to MaxCost.
func (r *Rule) costOf(s *subject) (cost int64, ok bool) {
	if r.cost == nil {
		return 1, true
	}
	amount, ok := r.cost.amount(s)
	switch {
	case !ok || amount != amount: // not a number, as 0/0
		return 0, false
	case amount >= MaxCost:
		return MaxCost, true
	case amount < 1:
		return 0, true
	}

	return int64(amount), true
}

// AppendKey appends the key of a request under the rule of an index. If the request lacks a part of it, ok is false and
// b is unchanged.
func (j *Judge) AppendKey(b []byte, rule int, r *request.Request) (key []byte, ok bool) {
	j.subject.about(r)
	return j.set.Rules[rule].Key.append(b, &j.subject)
}

// Path is the request's path in the form that the rules require, valid until the next call.
func (j *Judge) Path(r *request.Request) string {
	j.subject.about(r)
	return j.subject.path()
}

// Outcome is the last request's outcome at the rule of an index.
func (j *Judge) Outcome(rule int) Reason { return j.outcomes[rule] }

// Counts is the number of requests by outcome at the rule of an index, since the Judge was made.
func (j *Judge) Counts(rule int) [Reasons]int64 { return j.counts[rule] }

// Allowed reports whether the rule of an index leaves a request alone.
func (j *Judge) Allowed(rule int, r *request.Request) bool {
	j.subject.about(r)
	return j.set.allowed.exempts(&j.subject, j.exempt) || j.exempt[rule]
}

// Covers reports whether a block by the rule of an index applies to this request, which has no response yet. It always
// does, unless the rule has covers: match. Then conditions on the response, or on a further field of a log, count as
// met, and so do expressions that fail. A request with a long text is covered: a pattern takes milliseconds for it, and
// a few of these requests at once would make all checks late, so that edges let everyone pass.
func (j *Judge) Covers(rule int, r *request.Request) bool {
	cover := j.set.Rules[rule].cover
	if cover == nil || max(len(r.Path), len(r.Host)) > longPath || max(len(r.Query), len(r.Agent), len(r.Referrer)) > longText {
		return true
	}
	j.subject.about(r)
	covers, ok := cover.matches(&j.subject)
	return covers || !ok
}
