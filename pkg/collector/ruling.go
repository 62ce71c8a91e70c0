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

// judgeBy judges by a ruling from the next record on, of which its rules' fields are read.
func (s *stream) judgeBy(r *ruling) {
	s.ruling, s.judge = r, r.set.NewJudge()
	s.tally.rules(s.metrics, r.names)
	s.want()
}

// want tells the decoder which fields are read.
func (s *stream) want() {
	if s.decoder != nil && s.ruling != nil {
		s.decoder.Want(s.ruling.reads)
	}
}
