package request

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"

	"weir/pkg/attempts"
)

// A Take is what an enforcer has decided at one inline rule. No log of a server has it: only records of attempts do.
type Take struct {
	Rule, Key string
	Verdict   string // admitted, refused, …
	Cost      int64
}

// An attemptParser reads the records of attempts at inline rules. Each rule of an attempt is a request of its own, and a
// settlement is none. It allocates.
type attemptParser struct {
	record attempts.Record
	take   Take
}

func newAttemptParser(o Options) (Parser, error) {
	if len(o.Fields) > 0 {
		return nil, errors.New("the records of attempts have fields of their own, which cannot be named otherwise")
	}
	return &attemptParser{}, nil
}

// Want implements Parser: all fields are read.
func (p *attemptParser) Want([]string) {}

// Parse implements Parser, for an attempt at one rule.
func (p *attemptParser) Parse(line string, r *Request) error {
	if err := p.read(line); err != nil {
		return err
	}
	if len(p.record.Takes) > 1 {
		return errEnvelope
	}
	return p.fill(r, 0)
}

// each calls do for each rule of an attempt.
func (p *attemptParser) each(line string, r *Request, do func(*Request, error)) {
	if err := p.read(line); err != nil {
		do(r, err)
		return
	}
	for i := range p.record.Takes {
		do(r, p.fill(r, i))
	}
}

func (p *attemptParser) read(line string) error {
	if strings.TrimSpace(line) == "" {
		return ErrNoRequest
	}
	if attempts.Parse([]byte(strings.TrimSpace(line)), &p.record) != nil {
		return errFormat
	}
	if p.record.Kind == attempts.Settlement {
		return ErrNoRequest
	}
	return nil
}

// fill makes a request of one rule of the attempt.
func (p *attemptParser) fill(r *Request, i int) error {
	from, take := &p.record, &p.record.Takes[i]
	r.Reset()
	r.UnixMilli = int64(from.Time)
	if r.UnixMilli >= 1<<42 {
		return errTime
	}
	if from.IP != "" {
		ip, err := netip.ParseAddr(from.IP)
		if err != nil {
			return errAddress
		}
		r.IP = ip
	}
	r.User, r.Method, r.Host, r.Agent = from.User, from.Method, from.Host, from.Agent
	r.Path, r.Query, _ = strings.Cut(from.Path, "?")
	p.take = Take{Rule: take.Rule, Key: take.Key, Verdict: take.Verdict, Cost: take.Cost}
	r.Take = &p.take
	for _, f := range [...]Field{{"rule", take.Rule}, {"key", take.Key}, {"verdict", take.Verdict}, {"limit", take.Limit}, {"attempt", from.Attempt},
		{"cost", strconv.FormatInt(take.Cost, 10)}, {"remaining", strconv.FormatInt(take.Remaining, 10)}} {
		if f.Value != "" {
			r.Fields = append(r.Fields, f)
		}
	}
	return nil
}
