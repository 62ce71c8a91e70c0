package enforcer

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/tally"
)

// A numbers is the answer to GET /v1/numbers. It has the counts since the start.
type numbers struct {
	Since      time.Time              `json:"since"`
	Checks     int64                  `json:"checks"`
	Refused    int64                  `json:"refused"`
	LastMinute bothNumbers            `json:"last_minute"` // an estimate of the last 60 seconds
	PerSecond  perSecond              `json:"per_second"`  // of the last 60 complete minutes
	Rules      map[string]ruleNumbers `json:"rules"`
	Entries    []*entryNumbers        `json:"entries,omitempty"`
}

type bothNumbers struct {
	Checks  int64 `json:"checks"`
	Refused int64 `json:"refused"`
}

type perSecond struct {
	Checks  [60]float64 `json:"checks"` // the oldest minute first
	Refused [60]float64 `json:"refused"`
}

type ruleNumbers struct {
	Refused      int64  `json:"refused"`
	BlockedNow   int64  `json:"blocked_now"`
	BlockedToday *int64 `json:"blocked_today,omitempty"` // nil where there is no index of events
}

// An entryNumbers has the refusals because of an active entry.
type entryNumbers struct {
	ID         string    `json:"id"`
	Rule       string    `json:"rule"`
	Key        string    `json:"key"`
	Target     string    `json:"target"` // the key as an order names it
	Limit      string    `json:"limit"`
	Until      string    `json:"until"`
	Refused    int64     `json:"refused"`
	LastMinute int64     `json:"last_minute"`
	Last       time.Time `json:"last_refused"`
}

// maxNumbered is how many entries an answer has at most: as many as the tally has places for.
const maxNumbered = 1 << 14

// numbers is GET /v1/numbers.
func (e *Enforcer) numbers(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Read); err != nil {
		return err
	}
	query, err := parameters(r, []string{"entries", "rule"})
	if err != nil {
		return err
	}
	wanted := 0
	if text := query.Get("entries"); text != "" {
		if wanted, err = strconv.Atoi(text); err != nil || wanted < 1 || wanted > maxNumbered {
			return problemf(http.StatusBadRequest, "entries is how many: 1 to %d, not %q", maxNumbered, text)
		}
	}
	leave, err := e.mayFind(r) // it may look at all entries and events
	if err != nil {
		return err
	}
	defer leave()

	now := e.config.Now()
	n := &numbers{Since: e.tally.Since.UTC(), Rules: map[string]ruleNumbers{}}
	n.Checks, n.Refused = e.tally.Totals()
	n.LastMinute.Checks, n.LastMinute.Refused = e.tally.LastMinute(now.UnixMilli())
	checks, refused := e.tally.Hour(now.UnixMilli())
	for i := range checks {
		n.PerSecond.Checks[i], n.PerSecond.Refused[i] = aSecond(checks[i]), aSecond(refused[i])
	}
	e.numberRules(r.Context(), n, now)
	if wanted > 0 {
		n.Entries = e.refusing(wanted, query.Get("rule"), now.UnixMilli())
	}
	writeJSON(hurry(w), http.StatusOK, n)
	return nil
}

// aSecond returns the rate of a minute's count.
func aSecond(inMinute int64) float64 { return math.Round(float64(inMinute)/60*1000) / 1000 }

// numberRules adds the numbers of each rule, and those of manual entries.
func (e *Enforcer) numberRules(ctx context.Context, n *numbers, now time.Time) {
	of := e.ruling.Load().Rules.Rules
	names := make([]string, 0, len(of)+1)
	for _, one := range of {
		names = append(names, one.Name)
	}
	blocked, today := e.day.of(ctx, e, now)
	for _, name := range append(names, blocklist.ManualRule) {
		one := ruleNumbers{Refused: e.tally.Rule(name).Refused(), BlockedNow: blocked[name]}
		if today != nil {
			one.BlockedToday = new(today[name])
		}
		n.Rules[name] = one
	}
}

// Asked counts the question of a bouncer about one client, which an entry refuses unless its rule is empty.
func (e *Enforcer) Asked(rule, entry string) {
	now := e.config.Now().UnixMilli()
	e.tally.Checked(now)
	if rule != "" {
		e.tally.Refused(now, e.tally.Known(rule), entry)
	}
}

// RefusedBy returns how many requests an entry with that id has refused here, about.
func (e *Enforcer) RefusedBy(id string) int64 {
	return e.tally.Of([]byte(id), e.config.Now().UnixMilli()).Refused
}

// refusing returns the active entries that refuse most: those of the last minute first.
func (e *Enforcer) refusing(most int, rule string, now int64) []*entryNumbers {
	type found struct {
		held blocklist.Held
		tally.Figures
	}
	first := best[found]{most: most, compare: func(a, b found) int {
		return cmp.Or(cmp.Compare(b.LastMinute, a.LastMinute), cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.Last, a.Last), cmp.Compare(a.held.Key(), b.held.Key()))
	}}
	defer e.SearchTurn()()
	for held := range e.config.Set.Held(now) {
		if rule != "" && rule != held.Rule() {
			continue
		}
		if figures := e.tally.Of(held.ID(), now); figures.Refused > 0 {
			first.add(found{held, figures})
		}
	}

	all, _ := first.sorted()
	entries := make([]*entryNumbers, len(all))
	for i, one := range all {
		of := one.held.Entry()
		entries[i] = &entryNumbers{ID: string(one.held.ID()), Rule: one.held.Rule(), Key: one.held.Key(), Target: of.Target(), Limit: of.Limit, Until: blocklist.InstantText(one.held.Until()),
			Refused: one.Refused, LastMinute: one.LastMinute, Last: time.UnixMilli(one.Last).UTC()}
	}
	return entries
}

// A day keeps how many keys each rule blocks now, and how many it has blocked today. Counting them reads the list and the
// events of the day, so it takes at most a part of the time.
type day struct {
	mu      sync.Mutex
	blocked map[string]int64
	today   map[string]int64 // nil where there is no index of events
	made    time.Time
	took    time.Duration
}

const (
	dayShare    = 20 // counting takes at most one in so many seconds
	dayPatience = 2 * time.Second
)

func (d *day) of(ctx context.Context, e *Enforcer, now time.Time) (blocked, today map[string]int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.blocked != nil && time.Since(d.made) < max(time.Second/2, dayShare*d.took) {
		return d.blocked, d.today
	}

	e.turns.acquire()
	defer e.turns.release()
	began := time.Now()
	d.blocked = map[string]int64{}
	for held := range e.config.Set.Held(now.UnixMilli()) {
		if kind := held.Kind(); kind == blocklist.OrderBlock || kind == 0 && !held.Shadow() {
			d.blocked[held.Rule()]++
		}
	}
	d.today = nil
	if e.config.Events != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dayPatience)
		defer cancel()
		year, month, date := now.Local().Date()
		d.today, _ = e.config.Events.CountBlocks(ctx, time.Date(year, month, date, 0, 0, 0, 0, time.Local).UnixMilli()) // without it the answer has no such numbers
	}
	d.made, d.took = time.Now(), time.Since(began)
	return d.blocked, d.today
}

// A refusingEntry is an entry with its refusals here.
type refusingEntry struct {
	blocklist.Entry
	tally.Figures
}

func (e *Enforcer) refusalsOf(entry *blocklist.Entry, now int64) *refusingEntry {
	return &refusingEntry{*entry, e.tally.Of([]byte(entry.ID), now)}
}

// MarshalJSON writes the entry, with its refusals if there are any.
func (r *refusingEntry) MarshalJSON() ([]byte, error) {
	text, err := r.Entry.MarshalJSON()
	if err != nil || r.Refused == 0 {
		return text, err
	}
	text = append(text[:len(text)-1], `,"refused":`...)
	text = append(strconv.AppendInt(text, r.Refused, 10), `,"last_refused":"`...)
	return append(text, blocklist.InstantText(r.Last)+`"}`...), nil
}
