package aggregator

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"

	"weir/pkg/aggregator/windows"
	"weir/pkg/rule"
	"weir/pkg/window"
)

const (
	rulesPatience = 10 * time.Second // for rules that hits name and we do not know
	mostUnknown   = 1000             // names that are remembered as unknown
)

// A ruling is a set of active rules. It does not change.
type ruling struct {
	set         *rule.Set
	policies    []*window.Policy
	fingerprint string
	modes       uint64        // a hash of names and modes
	over        chan struct{} // closed when another set is active
}

// Reload makes other rules active. The same rules again change nothing.
func (a *Aggregator) Reload(set *rule.Set) error {
	next := &ruling{set: set, fingerprint: set.Fingerprint(), over: make(chan struct{})}
	before := a.rules.Load()
	if before != nil && before.fingerprint == next.fingerprint {
		return nil
	}

	var modes []string
	for _, r := range set.Rules {
		policy, err := r.Policy(a.config.Late, 0)
		if err != nil {
			return fmt.Errorf("rule %s: %w", r.Name, err)
		}
		next.policies = append(next.policies, policy)
		modes = append(modes, r.Name+"="+r.Mode.String())
	}

	slices.Sort(modes)
	next.modes = xxhash.Sum64String(strings.Join(modes, " "))
	a.metrics.showRules(set)
	a.rules.Store(next)
	if before != nil {
		close(before.over)
	}

	return nil
}

var tallyWords = [windows.Outcomes]string{window.Counted: "counted", window.Broke: "broke", window.Extended: "extended", window.Blocked: "blocked",
	window.Late: "late", window.Moved: "moved", windows.Ahead: "ahead", windows.Replayed: "replayed"}

// A counted rule is one whose hits a partition counts.
type counted struct {
	*windows.Rule
	told [windows.Outcomes]prometheus.Counter
}

// counting is what of a rule its windows depend on.
func counting(r *rule.Rule) any {
	type what struct {
		algorithm  window.Algorithm
		limits     []rule.Limit
		subwindows int
		burst      int64
		block      rule.Block
		remember   int
		cost       string // whether a hit is one request
	}
	return what{r.Algorithm, r.Limits, r.Subwindows, r.Burst, r.Block, r.Remember, r.Cost}
}

// A rulebook is a partition's own view of the active rules.
type rulebook struct {
	active  *atomic.Pointer[ruling]
	hits    *prometheus.CounterVec
	ruling  *ruling
	byName  map[string]*counted
	unknown map[string]bool // names that were waited for in vain, or are gone
	before  []*counted      // not active any more: batches at hand may be counted by them
}

func newRulebook(active *atomic.Pointer[ruling], hits *prometheus.CounterVec) rulebook {
	b := rulebook{active: active, hits: hits, byName: map[string]*counted{}, unknown: map[string]bool{}}
	b.refresh()
	return b
}

// named is the rule of a name, or nil.
func (b *rulebook) named(name string) *windows.Rule {
	if c := b.byName[name]; c != nil {
		return c.Rule
	}
	return nil
}

// modes is a hash of the names and modes of the active rules.
func (b *rulebook) modes() uint64 { return b.ruling.modes }

// refresh takes the active rules. Rules that count as before keep their windows as they are.
func (b *rulebook) refresh() {
	now := b.active.Load()
	if b.ruling == now {
		return
	}

	b.flush()
	before := b.byName
	b.ruling, b.byName, b.unknown = now, map[string]*counted{}, map[string]bool{}
	for i, r := range now.set.Rules {
		c := before[r.Name]
		if c == nil || !reflect.DeepEqual(counting(c.Spec), counting(r)) {
			c = &counted{Rule: &windows.Rule{Name: r.Name, Policy: now.policies[i]}}
			for outcome := range c.told {
				c.told[outcome] = b.hits.WithLabelValues(r.Name, tallyWords[outcome])
			}
		}
		c.Spec = r
		b.byName[r.Name] = c
	}

	for name, c := range before {
		if b.byName[name] == nil {
			b.unknown[name] = true
		}
		if b.byName[name] != c {
			b.before = append(b.before, c)
		}
	}
}

// flush tells the metrics what they do not know yet.
func (b *rulebook) flush() {
	for _, c := range b.byName {
		c.flush()
	}
	for _, c := range b.before {
		c.flush()
	}
}

// settle does the same when the batches at hand are counted.
func (b *rulebook) settle() {
	b.flush()
	b.before = nil
}

func (c *counted) flush() {
	for outcome, n := range c.Tally {
		if n > 0 {
			c.told[outcome].Add(float64(n))
			c.Tally[outcome] = 0
		}
	}
}

// awaitRules waits for rules that hits name and that are not known: the file is read again, and may be late.
func (p *partition) awaitRules(ctx context.Context, names []string) {
	p.rules.refresh()
	var until time.Time
	for _, name := range names {
		for p.rules.byName[name] == nil && !p.rules.unknown[name] {
			if until.IsZero() {
				until = p.config.Now().Add(rulesPatience)
				p.logger.Warn("hits of a rule that is not known here: the rules are read again", "rule", name)
				p.config.Reread()
			}
			if !p.otherRules(ctx, until.Sub(p.config.Now())) {
				p.giveUp(name)
			}
		}
	}
}

// otherRules waits until other rules are active.
func (p *partition) otherRules(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	for {
		select {
		case <-p.rules.ruling.over:
			p.rules.refresh()
			return true
		case ask := <-p.asks:
			ask(ctx)
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (p *partition) giveUp(name string) {
	if len(p.rules.unknown) >= mostUnknown {
		clear(p.rules.unknown)
	}
	p.rules.unknown[name] = true
	p.logger.Warn("hits of a rule that is not known here are not counted", "rule", name)
}
