package aggregator

import (
	"context"
	"fmt"
	"log/slog"
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
	policies    []*window.Policy // by the rules' indexes, nil for those that do not count the log
	fingerprint string
	modes       uint64        // a hash of names and modes of the rules that count
	over        chan struct{} // closed when another set is active
}

// newRuling makes the policies of rules, for hits that come late. Where clients may know the numbers of their values, these
// are hashed with the seed.
func newRuling(set *rule.Set, late time.Duration, seed uint64) (*ruling, error) {
	set = set.Counted()
	next := &ruling{set: set, fingerprint: set.Fingerprint(), over: make(chan struct{})}
	var modes []string
	for _, r := range set.Rules {
		if !r.CountsLog() {
			next.policies = append(next.policies, nil)
			continue
		}
		policy, err := r.Policy(late, 0)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Name, err)
		}
		if !r.HidesValues() {
			policy = policy.Seeded(seed)
		}
		next.policies = append(next.policies, policy)
		modes = append(modes, r.Name+"="+r.Mode.String())
	}

	slices.Sort(modes)
	next.modes = xxhash.Sum64String(strings.Join(modes, " "))
	return next, nil
}

var tallyWords = [windows.Outcomes]string{window.Counted: "counted", window.Broke: "broke", window.Extended: "extended", window.Blocked: "blocked",
	window.Late: "late", window.Moved: "moved", window.Undone: "undone", windows.Ahead: "ahead", windows.Replayed: "replayed"}

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
		values     uint64
		over       float64 // of a share
		late       time.Duration
		cost       string // whether a hit is one request
		passes     bool
		shift      uint // of members
		lateness   *time.Duration
	}
	of := what{r.Algorithm, r.Limits, r.Subwindows, r.Burst, r.Block, r.Remember, r.ValuesOf(), 0, 0, r.Cost, r.PassesOn(), r.MemberShift(), r.Lateness}
	if r.CountsShare() {
		of.over, of.late = r.Share.Over, r.Share.Late
	}
	return of
}

// A rulebook is a partition's own view of the active rules.
type rulebook struct {
	active  *atomic.Pointer[ruling]
	hits    *prometheus.CounterVec
	reread  func() // asks for the rules to be read again
	asks    *questions
	logger  *slog.Logger
	now     func() time.Time
	ruling  *ruling
	byName  map[string]*counted
	unknown map[string]bool // names that were waited for in vain, or are gone
	before  []*counted      // not active any more: batches at hand may be counted by them

	countsKeys bool // a rule does
}

// forget begins again with the active rules.
func (b *rulebook) forget() {
	b.ruling = nil
	b.byName = nil
	b.unknown = nil
	b.before = nil
	b.refresh()
}

// named is the rule of a name, or nil.
func (b *rulebook) named(name string) *windows.Rule {
	if c := b.byName[name]; c != nil {
		return c.Rule
	}
	return nil
}

// set is the active rules.
func (b *rulebook) set() *rule.Set { return b.ruling.set }

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
	b.countsKeys = false
	b.ruling, b.byName, b.unknown = now, map[string]*counted{}, map[string]bool{}
	for i, r := range now.set.Rules {
		// Its hits are from before it was inline: they are not waited for.
		if !r.CountsLog() {
			b.unknown[r.Name] = true
			continue
		}

		c := before[r.Name]
		if c == nil || !reflect.DeepEqual(counting(c.Spec), counting(r)) {
			c = &counted{Rule: &windows.Rule{Name: r.Name, Policy: now.policies[i], Of: r.ValuesOf()}}
			for outcome := range c.told {
				c.told[outcome] = b.hits.WithLabelValues(r.Name, tallyWords[outcome])
			}
		}
		c.Spec, c.CountsKeys = r, r.Guard.MostShare > 0 && !r.CountsBlocks()
		b.countsKeys = b.countsKeys || c.CountsKeys
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

// await waits for rules that hits name and that are not known: the file is read again, and may be late.
func (b *rulebook) await(ctx context.Context, names []string) {
	b.refresh()
	var until time.Time
	for _, name := range names {
		for b.byName[name] == nil && !b.unknown[name] {
			if until.IsZero() {
				until = b.now().Add(rulesPatience)
				b.logger.Warn("hits of a rule that is not known here: the rules are read again", "rule", name)
				b.reread()
			}
			if b.asks.answerFor(ctx, max(0, until.Sub(b.now())), b.ruling.over) {
				b.refresh()
			} else {
				b.giveUp(name)
			}
		}
	}
}

func (b *rulebook) giveUp(name string) {
	if len(b.unknown) >= mostUnknown {
		clear(b.unknown)
	}
	b.unknown[name] = true
	b.logger.Warn("hits of a rule that is not known here are not counted", "rule", name)
}
