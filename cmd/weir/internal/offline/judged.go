package offline

import (
	"strings"

	"weir/pkg/request"
	"weir/pkg/rule"
)

// judged notes the rules under which a request counts, and for the others the reason why it does not.
func (p *parseCommand) judged(l *line, r *request.Request) {
	if p.judge == nil {
		return
	}
	for _, h := range p.judge.Hits(r) {
		of := p.set.Rules[h.Rule]
		key := string(h.Key)
		l.Hits = append(l.Hits, lineHit{of.Name, key, of.Key.Fields(key), h.Cost})
	}

	for i, of := range p.set.Rules {
		if reason := p.judge.Outcome(i); reason != rule.Counted {
			l.Uncounted = append(l.Uncounted, uncounted{of.Name, reason.String(), why(reason, of, r)})
		}
	}
}

// why describes the reason for which a request does not count under a rule.
func why(reason rule.Reason, of *rule.Rule, r *request.Request) string {
	switch reason {
	case rule.Inline:
		if of.CountsBlocks() {
			return "the rule counts blocks of other rules"
		}
		return "the rule is decided inline, before the request is served"
	case rule.Allowed:
		return "an allow entry matches it"
	case rule.NoMatch:
		return "the request does not match: " + of.Match
	case rule.Failed:
		return "its match or cost cannot be computed for this request"
	case rule.Refused:
		return "an enforcer refused the request, and the rule counts only served ones"
	case rule.NoCost:
		return "its cost is below 1: " + of.Cost
	case rule.NoKey:
		return "the request has no " + missing(of, r)
	default:
		return reason.String()
	}
}

// missing lists the parts of the rule's key, and the fields whose different values it counts, that a request lacks.
func missing(of *rule.Rule, r *request.Request) string {
	var names []string
	for _, word := range append(of.Key.Words(), of.Distinct.Words()...) {
		name, _, _ := strings.Cut(word, "/")
		name = strings.TrimPrefix(name, "raw_")
		if _, ok := r.Field(name); !ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and no ")
}
