package rule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"

	"weir/internal/duration"
	"weir/internal/yamlfile"
	"weir/pkg/attempts"
	"weir/pkg/request"
	"weir/pkg/window"
)

// CountsRefusals reports whether collectors and aggregators count the refused attempts of an inline rule, for its block.
func (r *Rule) CountsRefusals() bool { return r.refusals != nil }

// countsRefusals is how refused attempts are counted: as a rule that is not inline, whose limit the attempt breaks that is
// one too many. A rule that blocks after the first counts each as two.
func (r *Rule) countsRefusals() *Rule {
	if !r.Inline || r.Block.After == 0 {
		return nil
	}
	counted := *r
	counted.Inline, counted.refusals, counted.match, counted.cost, counted.Cost = false, nil, nil, nil, "1"
	counted.Algorithm, counted.Subwindows, counted.Burst, counted.Remember, counted.Lease = window.Sliding, DefaultSubwindows, 0, 0, 0
	text := fmt.Sprintf("%d refused in %s", r.Block.After, duration.Duration(r.Block.Within))
	counted.Limits = []Limit{{Limit: window.Limit{Hits: max(1, r.Block.After-1), Per: r.Block.Within}, Text: text}}
	return &counted
}

// Counted is the set as aggregators count it: with the refusals of inline rules as rules of their own, and
// with the rules that count blocks. Its fingerprint is
// that of the set.
func (s *Set) Counted() *Set {
	if !s.CountsRefusals() && !s.CountsBlocks() {
		return s
	}
	counted := *s
	counted.Rules = slices.Clone(s.Rules)
	for i, r := range s.Rules {
		switch {
		case r.CountsRefusals():
			counted.Rules[i] = r.refusals
		case r.CountsBlocks():
			counted.Rules[i] = r.countedBlocks()
		}
	}
	return &counted
}

// CountsRefusals reports whether any rule counts refused attempts.
func (s *Set) CountsRefusals() bool { return slices.ContainsFunc(s.Rules, (*Rule).CountsRefusals) }

// Refusals is the hit of an attempt at an inline rule that was refused, if the rule counts refusals: under the key that it
// was refused by. It is valid until the next call. In shadow mode, an attempt counts that would have been refused.
func (j *Judge) Refusals(r *request.Request) []Hit {
	j.subject.about(r)
	j.hits, j.keys = j.hits[:0], j.keys[:0]
	for i, rule := range j.set.Rules {
		reason := Inline
		if r.Take != nil && rule.CountsRefusals() && rule.Name == r.Take.Rule {
			reason = j.refusal(i, rule, r.Take)
		}
		j.note(i, reason)
	}
	return j.hits
}

func (j *Judge) refusal(i int, rule *Rule, take *request.Take) Reason {
	if take.Verdict != attempts.Refused && !(take.Verdict == attempts.Shadow && rule.Mode == Shadow) {
		return Inline
	}
	if j.set.allowed.exempts(&j.subject, j.exempt) || j.exempt[i] {
		return Allowed
	}
	// The rule may have had another key when it refused.
	trimmed := strings.TrimSpace(take.Key)
	if key, err := rule.Key.Canonical(take.Key); trimmed != "" && (err != nil || key != trimmed) || len(take.Key) > MaxKeyBytes {
		return NoKey
	}

	start := len(j.keys)
	j.keys = append(j.keys, take.Key...)
	cost := int64(1)
	if rule.Block.After == 1 {
		cost = 2
	}
	j.hits = append(j.hits, Hit{Rule: i, Key: j.keys[start:len(j.keys):len(j.keys)], Cost: cost})
	return Counted
}

const (
	mostAfter     = 1_000_000
	longestWithin = 10 * 366 * 24 * time.Hour
)

// checkAfter finds a block after refusals that cannot be.
func (r *ruleSpec) checkAfter(v yamlfile.Value) {
	block := v.Key("block")
	after, within := block.Key("after"), block.Key("within")
	const example = "write block: {after: 3, within: 1m, for: 15m}"
	switch {
	case !block.Has("after") && block.Has("within"):
		within.Faultf(example, "within is the time of after, which is not there")
	case !block.Has("after") || after.Faulty() || within.Faulty():
	case !r.Inline.On:
		after.Faultf("leave it out, or write inline: true", "after counts refused attempts, and only inline rules have these")
	case r.Inline.AlsoLog:
		after.Faultf("leave one of them out", "after and inline: {also: log} do not go together: the block would have two causes")
	case r.Block.After < 1 || r.Block.After > mostAfter:
		after.Faultf("write 1 to 1000000", "a block after %d refused attempts is not possible", r.Block.After)
	case r.Block.Within <= 0 || time.Duration(r.Block.Within) > longestWithin:
		block.Faultf(example, "the block names no time within which %d attempts are refused", r.Block.After)
	}
}

// attemptNames are the names in expressions that only attempts at inline rules have.
var attemptNames = []string{"verdict", "rule"}

// readsAttempts reports whether a match is about attempts.
func readsAttempts(n ast.Node) bool {
	named := namesIn{}
	ast.Walk(&n, &named)
	return slices.ContainsFunc(named.all, func(name string) bool {
		return slices.Contains(attemptNames, name) && !slices.Contains(named.further, name)
	})
}
