package pipeline

import (
	"context"

	"weir/pkg/collector/pace"
	"weir/pkg/hit"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// judgeRequest judges a request of the record, or counts why it cannot be read.
func (s *Stream) judgeRequest(ctx context.Context, r *request.Request, err error) {
	s.nth++
	if s.err != nil || err == request.ErrNoRequest {
		return
	}
	if err != nil {
		s.unread(reasonOf(err))
		return
	}

	for i, text := range s.outer {
		r.SetOuter(s.in.config.Outer[i], text)
	}
	s.tally.requests++
	why := s.refuse(ctx, r)
	if s.err != nil {
		return
	}
	if why != Counted {
		s.tally.uncounted[why]++
		return
	}
	s.ender.add(r, s.ruling.lease, s.open.Clock)

	hits := s.hitsOf(r)
	if len(hits) == 0 {
		s.tally.uncounted[s.whyNone()]++
	}

	for i := range hits {
		s.hit(&hits[i], r)
	}
}

// hitsOf returns what the rules count of a request.
func (s *Stream) hitsOf(r *request.Request) []rule.Hit {
	if s.in.config.Refusals {
		return s.judge.Refusals(r)
	}
	return s.judge.Hits(r)
}

// refuse returns why a request that was read is not judged; counted when it is.
func (s *Stream) refuse(ctx context.Context, r *request.Request) Reason {
	if s.in.config.Only != nil && !s.in.config.Only(s.decoder.Envelope) {
		return reasonFiltered
	}
	// An edge's duration does not reach beyond the present. One that does is not believed: it must not make requests
	// uncounted.
	if r.UnixMilli > s.open.Clock+s.in.ahead {
		r.UnixMilli, r.TookMilli = r.Began(), 0
	}

	if r.Take == nil { // an attempt has the client that the enforcer found
		proxy := s.ruling.client != nil && s.ruling.client.Resolve(r)
		s.watch.request(r, proxy, s.ruling, s.open.Clock)
	}
	switch {
	case r.UnixMilli > s.open.Clock+s.in.ahead:
		s.in.early.count.Add(1)
		s.in.early.last.Store(s.open.Clock)
		return reasonAhead
	case r.UnixMilli < s.notBefore:
		return reasonStart
	}

	if s.err = s.reach(ctx, r.UnixMilli); s.err == nil && s.in.seen != nil && s.seenBefore(r) {
		return reasonSeen
	}
	return Counted
}

// reach notes the time of a request. A cut covers no more time than the stream may be ahead of others.
func (s *Stream) reach(ctx context.Context, at int64) error {
	if s.open.first != pace.NoTime && at-s.open.first > s.open.span && s.noHitYet && !s.continues && s.position > s.open.From && len(s.again) == 0 {
		if err := s.cutBefore(ctx); err != nil {
			return err
		}
	}
	s.reached = max(s.reached, at)
	if s.open.first == pace.NoTime {
		s.open.first = s.reached
	}
	return nil
}

// cutBefore cuts the records before the one that is being read, and begins the cut that this one belongs to. The same
// rules judge the new cut: the decoder may not have read the fields that others need.
func (s *Stream) cutBefore(ctx context.Context) error {
	after := s.open.To
	s.endCut()
	s.midway = true
	defer func() { s.midway = false }()
	return s.openFor(ctx, after)
}

// whyNone is the reason of the rule that came nearest to counting the request.
func (s *Stream) whyNone() Reason {
	why := rule.Inline
	for i := range s.ruling.names {
		why = max(why, s.judge.Outcome(i))
	}
	return ruleReasons[why]
}

// hit adds a hit to the batch of its partition.
func (s *Stream) hit(h *rule.Hit, r *request.Request) {
	partition := hit.Partition(s.ruling.names[h.Rule], h.Key, len(s.writers))
	w := s.writers[partition]
	if w == nil {
		w = s.in.pipeline.writers.get()
		w.ResetValues(s.ruling.names, s.ruling.of)
		s.writers[partition] = w
		s.used = append(s.used, partition)
	}

	if !s.addTo(w, h, r) {
		s.addBatch(partition, true)
		w.ResetValues(s.ruling.names, s.ruling.of)
		s.addTo(w, h, r)
	}

	if s.copier.on {
		s.copier.add(s.ruling.evidence[h.Rule], h, s.judge.Masked(r))
	}
	s.hits++
	s.noHitYet = false
	s.full = s.full || w.Size() > cutBytes
	s.tally.hits[h.Rule]++
}

// addTo adds a hit to a batch, if it fits.
func (s *Stream) addTo(w *hit.Writer, h *rule.Hit, r *request.Request) bool {
	if s.ruling.of != nil && s.ruling.of[h.Rule] != 0 {
		return w.AddValue(h.Rule, h.Key, r.UnixMilli, h.Value)
	}
	return w.Add(h.Rule, h.Key, r.UnixMilli, h.Cost)
}

// unread counts the record that is being read as unreadable.
func (s *Stream) unread(why Reason) {
	s.tally.requests++
	s.tally.uncounted[why]++
	s.watch.unread(s.record)
}
