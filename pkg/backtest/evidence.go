package backtest

import (
	"cmp"
	"context"
	"slices"

	"weir/pkg/evidence"
	"weir/pkg/request"
)

// A worstKey is one of the keys that were refused most.
type worstKey struct {
	number int // of the rule in its set
	rule   *RuleReport
	key    *Blocked
}

// worst returns the keys refused most over all rules, at most pageCards, if their timelines were kept.
func (r *Report) worst() []worstKey {
	var all []worstKey
	for i := range r.Rules {
		for j := range r.Rules[i].Blocked {
			if b := &r.Rules[i].Blocked[j]; b.timeline != nil {
				all = append(all, worstKey{i, &r.Rules[i], b})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b worstKey) int { return cmp.Compare(b.key.Refused, a.key.Refused) })
	return all[:min(len(all), pageCards)]
}

// sought are the keys of each rule whose requests are searched.
type sought []map[string]*soughtKey

// A soughtKey is one of them. Workers only read it.
type soughtKey struct {
	key  *Blocked
	most int // how many requests the rule keeps
}

// A proof is a request that counted for a key that is sought.
type proof struct {
	of  *soughtKey
	one evidence.Request
}

// findEvidence reads the logs again, and adds to the worst keys the last requests that counted for them until they were
// first blocked. A log that breaks off is read as far as before.
func (p *pass) findEvidence(ctx context.Context, r *Report) error {
	last := Instant(longAgo)
	p.sought = make(sought, len(r.Rules))
	for _, w := range r.worst() {
		most := p.config.Rules.Rules[w.number].Evidence
		if most == 0 {
			continue
		}
		if p.sought[w.number] == nil {
			p.sought[w.number] = map[string]*soughtKey{}
		}
		p.sought[w.number][w.key.Key] = &soughtKey{w.key, most}
		last = max(last, w.key.First)
	}
	if last == longAgo {
		return nil // no key was blocked whose requests are kept
	}

	p.done.Store(0)
	return p.parsing(ctx, func(ctx context.Context) error {
		for _, l := range p.logs {
			switch {
			case l.once:
				r.once = true
			case l.empty || l.first > int64(last)+p.config.Late.Milliseconds(): // all of it is later
			default:
				if err := p.search(ctx, l); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// search keeps the requests of one log. The logs and their chunks come in their order, so that of requests of the same
// time the last is known.
func (p *pass) search(ctx context.Context, l *log) error {
	f := p.open(ctx, l, 1)
	for c := range f.out {
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, one := range c.found {
			one.of.keep(one.one)
		}
		if p.config.Progress != nil {
			p.config.Progress(p.done.Load(), p.size)
		}
		f.free <- c
	}
	return ctx.Err()
}

// keep adds a request, if it is one of the newest.
func (s *soughtKey) keep(one evidence.Request) {
	kept := s.key.evidence
	at := slices.IndexFunc(kept, func(other evidence.Request) bool { return !other.Time.After(one.Time) })
	if at < 0 {
		at = len(kept)
	}
	kept = slices.Insert(kept, at, one)
	s.key.evidence = kept[:min(len(kept), s.most)]
}

// find keeps one request of a line, if it counted for a key that is sought.
func (w *worker) find(r *request.Request, err error) {
	if err != nil || !w.selects() {
		return
	}
	if w.config.Client != nil {
		w.config.Client.Resolve(r)
	}
	judge := w.judges[0]
	for _, h := range judge.Hits(r) {
		if key := w.sought[h.Rule][string(h.Key)]; key != nil && Instant(r.UnixMilli) <= key.key.First {
			w.chunk.found = append(w.chunk.found, proof{key, evidence.Of(judge.Masked(r))})
		}
	}
}
