package pipeline

import (
	"slices"

	"weir/pkg/evidence"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A ruling is the rules and the client settings that requests are judged by. It never changes, and each cut is made by
// one.
type ruling struct {
	set         *rule.Set
	client      *request.Client
	names       []string // of the rules, by their index
	of          []uint64 // by rule: what the values of its hits are of, 0 where they have none; nil when no rule's have any
	reads       []string // fields of requests; nil is all
	asks        []rule.Asked
	fingerprint string
	evidence    []uint64 // by rule: its number in the ring, 0 for rules without evidence; nil when no rule has any
	reaches     []string // as reads, with the fields that evidence shows
	lease       int64    // the longest of rules with ends: log, ms; 0 reads no ends
}

// shownFields are those that evidence shows, besides those that every parser fills.
var shownFields = []string{"method", "host", "path", "query", "agent"}

func newRuling(set *rule.Set, client *request.Client, c *Config) *ruling {
	r := &ruling{set: set, client: client, fingerprint: set.Fingerprint(), reads: set.Reads(), asks: set.Asks(), of: set.ValuesOf()}
	for _, one := range set.Rules {
		r.names = append(r.names, one.Name)
	}
	if c.Ended != nil {
		r.readEnds()
	}
	r.keepEvidence(c.Evidence)
	return r
}

// keepEvidence notes which rules have evidence.
func (r *ruling) keepEvidence(ring *evidence.Ring) {
	if ring == nil || !slices.ContainsFunc(r.set.Rules, keepsEvidence) {
		return
	}
	r.evidence = make([]uint64, len(r.names))
	for i, one := range r.set.Rules {
		if keepsEvidence(one) {
			r.evidence[i] = ring.Rule(one.Name)
		}
	}
	if r.reads != nil { // nil is all fields
		r.reaches = slices.Concat(r.reads, shownFields)
	}
}

func keepsEvidence(r *rule.Rule) bool {
	return r.Evidence > 0 && (r.CountsLog() || r.CountsRefusals())
}
