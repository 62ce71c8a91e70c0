package collector

import (
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A ruling is what requests are judged by: it never changes, and a cut is made by one.
type ruling struct {
	set         *rule.Set
	client      *request.Client
	names       []string // of the rules, by their index
	fingerprint string
}

func newRuling(set *rule.Set, client *request.Client) *ruling {
	r := &ruling{set: set, client: client, fingerprint: set.Fingerprint()}
	for _, one := range set.Rules {
		r.names = append(r.names, one.Name)
	}
	return r
}
