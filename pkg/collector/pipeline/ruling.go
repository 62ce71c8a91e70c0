package pipeline

import (
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A ruling is the rules and the client settings that requests are judged by. It never changes, and each cut is made by
// one.
type ruling struct {
	set         *rule.Set
	client      *request.Client
	names       []string // of the rules, by their index
	reads       []string // fields of requests; nil is all
	asks        []rule.Asked
	fingerprint string
}

func newRuling(set *rule.Set, client *request.Client) *ruling {
	r := &ruling{set: set, client: client, fingerprint: set.Fingerprint(), reads: set.Reads(), asks: set.Asks()}
	for _, one := range set.Rules {
		r.names = append(r.names, one.Name)
	}
	return r
}
