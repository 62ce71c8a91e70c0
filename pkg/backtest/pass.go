package backtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"weir/pkg/rule"
	"weir/pkg/window"
)

// A pass reads all inputs once.
type pass struct {
	config   *Config
	counters []*counter // one for each set of rules
	logs     []*log
	total    *total
	workers  []*worker // all workers, including the feeds' own
	repeated repeated
	sought   sought       // nil while requests are counted
	heavy    *heavySketch // nil, or counts values in place of the counters
	done     atomic.Int64
	size     int64 // of all inputs in bytes; 0 when unknown

	feeds, parsers sync.WaitGroup
	work           chan *chunk
}

const maxRules = 1 << 16

// newPass makes a counter for each set; the first has one more variant for each of Config.Algorithms.
func newPass(c *Config) (*pass, error) {
	p := &pass{config: c, repeated: newRepeated(c.Dedupe)}
	for _, set := range c.sets() {
		if set == nil || len(set.Rules) == 0 {
			return nil, errNoRules
		}
		if len(set.Rules) > maxRules {
			return nil, fmt.Errorf("%d rules are too many, at most %d can be run", len(set.Rules), maxRules)
		}

		own, err := newTallies(c, set, nil)
		if err != nil {
			return nil, err
		}

		v := newVariant(own, seriesBars)
		if c.Timelines && set == c.Rules {
			v.timelines = new(timelines)
		}

		counter := newCounter(set, c.Late)
		counter.judgeBy(v)
		p.counters = append(p.counters, counter)
	}

	bars := 2 // their requests over time are for the page only
	if c.Timelines {
		bars = seriesBars
	}
	// Algorithms share the keys and the order of hits with the set's own counter: only the counting is done again.
	for _, a := range c.Algorithms {
		tallies, err := newTallies(c, c.Rules, &a)
		if err != nil {
			return nil, err
		}
		p.counters[0].judgeBy(newVariant(tallies, bars))
	}

	return p, nil
}

func (p *pass) lookAtAll(ctx context.Context) (err error) {
	p.logs, err = lookAtAll(ctx, p.config, &p.done)
	p.total = newTotal(len(p.logs), seriesBars)
	for _, l := range p.logs {
		if l.size == 0 && !l.empty {
			p.size = 0
			break
		}
		p.size += l.size
	}
	return err
}

// read reads the logs to their ends and counts everything.
func (p *pass) read(ctx context.Context) error {
	// The merge runs here, in one goroutine: only parsing is done in parallel, and the result does not depend on it.
	err := p.parsing(ctx, func(ctx context.Context) error {
		m := &merge{late: p.config.Late.Milliseconds(), chunk: p.chunk, hit: p.hit, open: func(l *log, feeds int) *feed { return p.open(ctx, l, feeds) }}
		m.waiting = slices.DeleteFunc(slices.Clone(p.logs), func(l *log) bool { return l.empty })
		return m.run(ctx)
	})
	closeAll(p.logs)
	if err != nil {
		return err
	}

	for _, c := range p.counters {
		c.countRest()
	}
	return nil
}

// parsing calls do while workers parse the chunks of the feeds that it opens.
func (p *pass) parsing(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	p.work = make(chan *chunk)
	for range workers() {
		w := p.newWorker()
		p.parsers.Go(func() {
			for c := range p.work {
				w.parse(c)
				c.done <- struct{}{}
			}
		})
	}

	err := do(ctx)

	// After an error, feeds may still wait to send. They end with ctx, and use the parsers until then.
	cancel()
	p.feeds.Wait()
	close(p.work)
	p.parsers.Wait()
	return err
}

func (p *pass) newWorker() *worker {
	w := newWorker(p.config)
	if w.sought = p.sought; w.sought != nil {
		w.each = w.find
	}
	p.workers = append(p.workers, w)
	return w
}

// open starts the feed of a log.
func (p *pass) open(ctx context.Context, l *log, feeds int) *feed {
	f := newFeed(l, 2+2*workers()/feeds, feeds)
	parse := func(c *chunk) {
		select {
		case p.work <- c:
		case <-ctx.Done():
		}
	}

	// Its chunks cannot be parsed out of order, so one worker parses them as they are read.
	if l.sequential {
		w := p.newWorker()
		parse = func(c *chunk) {
			w.parse(c)
			c.done <- struct{}{}
		}
	}

	p.feeds.Go(func() { f.run(ctx, &p.done, parse) })
	return f
}

// chunk adds the totals of a chunk, before its hits are counted.
func (p *pass) chunk(c *chunk) error {
	p.total.add(c)
	for _, counter := range p.counters {
		counter.countDue()
	}
	if p.config.Progress != nil {
		p.config.Progress(p.done.Load(), p.size)
	}
	return nil
}

func (p *pass) hit(c *chunk, h *hit, key []byte) error {
	if p.repeated.drops(h) {
		return nil
	}
	if p.heavy != nil {
		p.heavy.add(key)
		return nil
	}
	return p.counters[h.set].add(h, key, c.log.rank)
}

// heads is the part of a report that is about the inputs.
func (p *pass) heads() *Report {
	t := p.total
	r := &Report{ReadReport: ReadReport{Requests: t.requests, Filtered: t.filtered, Unread: t.unread, Seen: p.repeated.count},
		InputsReport: InputsReport{t.inputReports(p.logs), t.samples, t.faults}}
	if t.requests > 0 {
		r.From, r.To = new(Instant(t.oldest)), new(Instant(t.newest))
	}
	return r
}

// report makes the report of the pass.
func (p *pass) report() *Report {
	c, t, r := p.config, p.total, p.heads()
	own := p.counters[0].variants[0]
	r.Refused, r.Rules, r.crawlers = own.refused, p.rules(0, 0), c.Rules.Crawlers
	for i, a := range c.Algorithms {
		r.Algorithms = append(r.Algorithms, p.algorithm(a, i+1))
	}
	r.plot = plotOf(t.series, own.series)
	if c.Against != nil {
		a := &AgainstReport{Refused: p.counters[1].variants[0].refused, Rules: p.rules(1, 0)}
		a.Changes = compareRules(a.Rules, r.Rules)
		r.Against = a
	}

	// Last, because conditions read the rest of the report.
	r.FailIf = c.FailIf.judge(r)
	c.Never.hide(c.Rules)
	r.Never = c.Never.judge(r.Rules, func(i int, key string) map[string]string { return c.Rules.Rules[i].Key.Fields(key) })
	return r
}

// rules are the reports of the rules of a set under a variant.
func (p *pass) rules(set, variant int) []RuleReport {
	rules := p.config.sets()[set]
	uncounted := make([][rule.Reasons]int64, len(rules.Rules))
	for _, w := range p.workers {
		for i := range uncounted {
			for reason, n := range w.judges[set].Counts(i) {
				uncounted[i][reason] += n
			}
		}
	}
	counter := p.counters[set]
	return ruleReports(rules, counter.table, counter.variants[variant], uncounted)
}

func (p *pass) algorithm(a window.Algorithm, variant int) AlgorithmReport {
	v := p.counters[0].variants[variant]
	r := AlgorithmReport{Algorithm: a.String(), Refused: v.refused, Rules: p.rules(0, variant)}
	r.StateBytes = v.stateBytes(p.counters[0].table.keys)
	r.HitNanos = float64(v.took.Nanoseconds()) / float64(cmp.Or(v.hits, 1))
	for i := range r.Rules {
		r.Blocked += int64(len(r.Rules[i].Blocked))
	}
	if p.config.Timelines {
		r.plot = plotOf(p.total.series.clone(), v.series)
	}
	return r
}
