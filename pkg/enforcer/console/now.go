package console

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"weir/internal/keytext"
	"weir/internal/limited"
	"weir/pkg/blocklist"
)

// A nowView is what the page Now shows.
type nowView struct {
	Query   *query
	Rules   []choice
	Modes   []choice
	Kinds   []choice
	Groups  []choice
	Rows    []*row
	Sums    []sum // of groups
	Others  int
	Grouped bool
	Found   string // how many entries are selected
	Totals  *counted
	Numbers *numbers // nil where the enforcer has none
	Most    []*refusedKey
	Refused bool   // the page shows the keys that are refused most, and no list
	Live    string // where the page's script gets changes; empty on later pages
	Sorted  string // the entries that refuse most; empty where that is not known
	Next    string // the next page
	First   string // the first page, on later ones
	AsOf    string
	Guards  *guardsView
}

// A choice is an option of a filter.
type choice struct {
	Value, Text string
	Chosen      bool
}

// A sum is a group with the address of the list of its entries.
type sum struct {
	group
	Shown, Link, Since string
}

func choices(chosen string, pairs ...string) (all []choice) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, choice{pairs[i], pairs[i+1], pairs[i] == chosen})
	}
	return all
}

// now is the page Now: the blocked keys.
func (c *Console) now(w http.ResponseWriter, r *http.Request, v *visitor) error {
	q, err := readQuery(r.URL.Query())
	if err != nil {
		return err
	}
	q.hide(c.config.Rules())
	leave, err := c.place(r)
	if err != nil {
		return err
	}
	defer leave()

	version := c.config.Set.Version() // before the list is read: changes meanwhile are shown again
	now := c.config.Now()
	result := &found{}
	if q.Group != byRefused {
		result = c.search(q, now.UnixMilli())
	}
	shown := &nowView{Query: q, Grouped: q.Group != "", Found: plural(result.total, "entry"), Others: result.others, Totals: c.count(), Numbers: c.numbers(r, v, nil), AsOf: asOf(c.config.Set)}
	shown.Guards = c.guards(v, root)
	shown.Modes = choices(q.Mode, "", "enforce and shadow", "enforce", "enforce", "shadow", "shadow")
	shown.Kinds = choices(q.Kind, "", "all blocks", "rules", "blocks by rules", "hand", "blocks by hand", "let", "allows and pauses")
	shown.Groups = choices(q.Group, "", "no groups", "rule", "by rule", "network", "by network", "refused", "refused most")
	shown.Rules = c.ruleChoices(q.Rule)

	if q.Group == byRefused {
		shown.Refused, shown.Most = true, c.mostRefused(r, v, q)
		shown.Found = plural(len(shown.Most), "key")
	}
	lets := shown.Totals.lets
	for _, e := range result.entries {
		shown.Rows = append(shown.Rows, c.row(e, now, lets))
	}
	for _, g := range result.groups {
		shown.Sums = append(shown.Sums, q.sum(g))
	}

	address := root + "?" + q.values().Encode()
	switch {
	case q.Before != "":
		shown.First = address
	case q.Group == "":
		shown.Live = q.live(version)
	}
	if c.config.Refused != nil {
		values := q.values()
		values.Set("group", byRefused)
		shown.Sorted = root + "?" + values.Encode()
	}
	if result.next != "" {
		values := q.values()
		values.Set("before", result.next)
		shown.Next = root + "?" + values.Encode()
	}

	c.render(w, r, http.StatusOK, "now", &view{Title: "Now", Active: "now", Scripts: []string{"now.js"}, Visitor: v, Notice: v.notice(), Body: shown})
	return nil
}

// inLine waits for one of a few places, so that constant questions of one person keep no others out.
func inLine(r *http.Request, places *limited.Places) (leave func(), ok bool) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	return places.Take(ctx, r)
}

// place waits for a place for a search.
func (c *Console) place(r *http.Request) (leave func(), err error) {
	leave, ok := inLine(r, c.searching)
	if !ok {
		return nil, problem{http.StatusServiceUnavailable, "Too many others search just now. Load the page again."}
	}
	return leave, nil
}

func (c *Console) ruleChoices(chosen string) []choice {
	names := []string{blocklist.ManualRule}
	if rules := c.config.Rules(); rules != nil {
		for _, one := range rules.Rules {
			names = append(names, one.Name)
		}
	}
	if chosen != "" && !slices.Contains(names, chosen) {
		names = append(names, chosen)
	}
	all := []choice{{"", "all rules", chosen == ""}}
	for _, name := range names {
		all = append(all, choice{name, keytext.Shown(name), name == chosen})
	}
	return all
}

// sum is a group as the page shows it, with the address that shows its entries.
func (q *query) sum(g group) sum {
	values := q.values()
	values.Del("group")
	if q.Group == "rule" {
		values.Set("rule", g.Name)
	} else {
		values.Set("q", g.Name)
	}
	return sum{g, keytext.Shown(g.Name), root + "?" + values.Encode(), instant(g.Newest)}
}

// live is the address of the changes after a version.
func (q *query) live(version blocklist.Version) string {
	values := q.values()
	values.Set("from", version.String())
	return root + "live?" + values.Encode()
}

func asOf(set *blocklist.Set) string {
	if at := set.AsOf(); at > 0 {
		return instant(at)
	}
	return ""
}

// A counted is how many entries there are, and who is let in.
type counted struct {
	sums
	lets *letIn
}

// The sums of the list.
type sums struct {
	Blocked int `json:"blocked"` // by rules that enforce, and by hand
	Shadow  int `json:"shadow"`
	Hand    int `json:"hand"` // of Blocked
	Let     int `json:"let"`  // allows
}

// Totals are counted for all readers together, and for at most a tenth of the time.
type totals struct {
	mu   sync.Mutex
	last *counted
	made time.Time // by the monotonic clock
	took time.Duration
	of   uint64 // the edits of the list
}

// countShare is the part of the time that counting may take.
const countShare = 10

// count counts the list, or returns a count that is recent.
func (c *Console) count() *counted {
	t := &c.totals
	t.mu.Lock()
	defer t.mu.Unlock()
	edits, age := c.config.Set.Edits(), time.Since(t.made)
	if t.last != nil && (age < countShare*t.took || edits == t.of && age < time.Second) {
		return t.last
	}

	began := time.Now()
	next := &counted{lets: newLetIn()}
	for h := range c.config.Set.Held(c.config.Now().UnixMilli()) {
		switch kind := h.Kind(); {
		case kind == blocklist.OrderBlock:
			next.Blocked++
			next.Hand++
		case kind != 0:
			if kind == blocklist.OrderAllow {
				next.Let++
			}
			next.lets.add(h.Order())
		case h.Shadow():
			next.Shadow++
		default:
			next.Blocked++
		}
	}
	t.last, t.made, t.took, t.of = next, time.Now(), time.Since(began), edits
	return next
}
