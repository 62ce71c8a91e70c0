package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"weir/internal/topic"
	"weir/pkg/hit"
	"weir/pkg/rule"
	"weir/pkg/window"
)

// A pass is the state of Ask.
type pass struct {
	config   Config
	question Question
	policies [2]*window.Policy // the rule as it is, and with the other limits
	single   bool              // every hit is one request
	values   uint64            // what the values of hits are of, if the rule counts different ones; else 0
	answer   *Answer

	// Of the partition that is read.
	reader     hit.Reader
	positions  *hit.Positions
	keys       map[string]*account
	bytes      int
	pairs      []*account // of a batch; nil where the pair is of another rule, or not found yet
	hits       int64
	first      int64
	last       int64
	unread     int64
	otherRules int64
	leftOut    int64
}

// An account is one key.
type account struct {
	hits int64
	of   [2]trial
}

type trial struct {
	state  window.State
	result Verdict
}

// accountBytes is about what a key takes besides its text and the logs of its states.
const accountBytes = 200

// mostSingly is up to how many hits of one instant are counted one by one.
const mostSingly = 1 << 12

func newPass(c Config, q Question) (*pass, error) {
	p := &pass{config: c, question: q, single: q.Rule.Cost == "1", values: q.Rule.ValuesOf(), answer: &Answer{Rule: q.Rule.Name, Since: q.Since.UTC(), Top: []Key{}, Notes: []string{}}}
	other := *q.Rule
	other.Limits = q.Limits
	var err error
	for i, one := range []*rule.Rule{q.Rule, &other} {
		if p.policies[i], err = one.Policy(c.Late, 0); err != nil {
			return nil, err
		}
	}
	p.answer.Now.Limits, p.answer.Other.Limits = texts(q.Rule.Limits), texts(q.Limits)
	return p, nil
}

func texts(limits []rule.Limit) []string {
	all := make([]string, len(limits))
	for i, l := range limits {
		all[i] = l.Text
	}
	return all
}

// errAnother is the error for a topic that is not the one whose ends are known: it was made again, or lost its end.
var errAnother = errors.New("the hits were deleted while they were counted: ask again")

// partition counts the hits of a partition from the time of the question to an offset, if the topic is still that one.
func (p *pass) partition(ctx context.Context, number int, end int64, in topic.Identity) error {
	p.positions, p.keys, p.bytes = hit.NewPositions(maxSources, p.config.Retention), map[string]*account{}, 0
	p.hits, p.first, p.last, p.unread, p.otherRules, p.leftOut = 0, 0, 0, 0, 0, 0
	begin, err := p.config.Log.OffsetAt(ctx, p.config.Topic, number, p.question.Since)
	if err != nil {
		return err
	}
	reader := p.config.Log.Reader(p.config.Topic, number, begin, 0)
	for reader.Next() < end {
		records, err := reader.Fetch(ctx)
		switch {
		case errors.Is(err, topic.ErrTrimmed): // the oldest were deleted meanwhile
			reader.SetNext(reader.Span().Start)
			continue
		case errors.Is(err, topic.ErrPastEnd):
			return errAnother
		case err != nil:
			return err
		case len(records) == 0 && reader.Span().End < end && reader.Span() != topic.Span{}: // the rest would never come
			return errAnother
		}
		if err := p.records(records, end); err != nil {
			return err
		}
	}

	now, err := reader.Identity(ctx)
	if err == nil && !now.Is(in) {
		return errAnother
	}
	return err
}

// records counts some records.
func (p *pass) records(records []topic.Record, end int64) error {
	if p.question.Turn != nil {
		defer p.question.Turn()()
	}
	for i := range records {
		if records[i].Offset < end {
			p.batch(&records[i])
		}
		if p.bytes > cmp.Or(p.config.MaxBytes, maxBytes) {
			return fmt.Errorf("%w: their keys take too much memory", ErrTooMuch)
		}
	}
	return nil
}

// batch counts the hits of the rule in a batch.
func (p *pass) batch(record *topic.Record) {
	if err := p.reader.Reset(record.Value); err != nil {
		p.unread++
		return
	}
	of := slices.Index(p.reader.Rules(), p.question.Rule.Name)
	h := p.reader.Header()
	if p.positions.Judge(h, p.reader.Checksum(), record.Time.UnixMilli()) != hit.Apply || of < 0 {
		return
	}

	pairs := p.reader.Pairs()
	p.pairs = slices.Grow(p.pairs[:0], len(pairs))[:len(pairs)]
	clear(p.pairs)
	passed := p.last
	latest, items, before := h.Latest(record.Time, p.config.Ahead, p.config.Late), p.reader.Items(), p.hits
	for i := range items {
		item := &items[i]
		if pairs[item.Pair].Rule != of || item.UnixMilli > latest {
			continue
		}
		if item.Cost > 0 && p.reader.Of(of) != p.values {
			p.leftOut += item.Cost
			continue
		}
		if p.pairs[item.Pair] == nil {
			p.pairs[item.Pair] = p.account(pairs[item.Pair].Key)
		}
		p.judge(p.pairs[item.Pair], passed)
		p.hit(p.pairs[item.Pair], item.UnixMilli, item.Cost, p.reader.Value(*item))
	}
	if h.Fingerprint != p.question.Fingerprint {
		p.otherRules += p.hits - before
	}
}

// judge decides what the time has decided that the rule's hits have come to.
func (p *pass) judge(a *account, passed int64) {
	for i := range a.of {
		if o := p.policies[i].Judge(&a.of[i].state, passed); o.Event == window.Broke {
			a.of[i].count(o, 0, 0)
		}
	}
}

func (p *pass) account(key []byte) *account {
	a := p.keys[string(key)]
	if a == nil {
		a = &account{}
		p.keys[string(key)] = a
		p.bytes += accountBytes + len(key) + a.of[0].state.Bytes() + a.of[1].state.Bytes()
	}
	return a
}

// hit counts hits of one instant. Cost 0 is the command to unblock, as if it had been given then too.
func (p *pass) hit(a *account, at, cost int64, value uint64) {
	for i := range a.of {
		state := &a.of[i].state
		p.bytes -= state.Bytes()
		switch {
		case cost == 0:
			p.policies[i].Unblock(state, at)
		case p.values != 0:
			a.of[i].count(p.policies[i].HitValue(state, at, value), at, 1)
		case p.single && cost <= mostSingly:
			for range cost {
				a.of[i].count(p.policies[i].Hit(state, at, 1), at, 1)
			}
		default:
			a.of[i].count(p.policies[i].Hit(state, at, cost), at, cost)
		}
		p.bytes += state.Bytes()
	}
	if cost == 0 {
		return
	}
	a.hits += cost
	p.hits += cost
	p.last = max(p.last, at)
	if p.first == 0 || at < p.first {
		p.first = at
	}
}

// count notes what a hit did.
func (t *trial) count(o window.Outcome, at, cost int64) {
	v := &t.result
	switch o.Event {
	case window.Counted, window.Late:
		return
	case window.Broke:
		v.Blocks++
		if v.First == 0 {
			v.First = Instant(o.From)
		}
	case window.Moved: // a late hit showed that the block began earlier
		if v.Blocks == 1 {
			v.First = Instant(o.From)
		}
	}
	if o.From <= at && at < o.Until {
		v.Refused += cost
	}
}

// fold adds the partition that was read to the answer.
func (p *pass) fold() {
	a := p.answer
	a.Read++
	a.Hits += p.hits
	a.unread += p.unread
	a.earlier += p.otherRules
	a.leftOut += p.leftOut
	a.Last = max(a.Last, Instant(p.last))
	if p.first != 0 && (a.First == 0 || Instant(p.first) < a.First) {
		a.First = Instant(p.first)
	}
	for key, one := range p.keys {
		if one.hits == 0 { // only a command named it
			continue
		}
		p.judge(one, p.last)
		a.Keys++
		now, other := one.of[0].result, one.of[1].result
		a.Now.add(now)
		a.Other.add(other)
		switch {
		case now.Blocks == 0 && other.Blocks == 0:
			continue
		case other.Blocks == 0:
			a.OnlyNow++
		case now.Blocks == 0:
			a.OnlyOther++
		}
		a.keep(Key{Key: key, Hits: one.hits, Now: now, Other: other})
	}
	a.cut()
	p.keys = nil
}

func (o *Outcome) add(v Verdict) {
	if v.Blocks > 0 {
		o.Blocked++
	}
	o.Blocks += v.Blocks
	o.Refused += v.Refused
}
