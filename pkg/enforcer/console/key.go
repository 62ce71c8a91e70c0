package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/internal/keytext"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// Bounds of the page of a key.
const (
	maxShownEntries = 20
	maxShownEvents  = 50
	maxAskedRules   = 50
	askPatience     = 3 * time.Second // for the counts of all rules
)

// A keyView is what the page of a key shows.
type keyView struct {
	Key     string // as it was asked for
	Entries []*entryView
	More    bool
	Orders  []*row
	Last    string // when a request was last refused here; empty where that is not known
	Counts  []*countsView
	Faults  []string // why counts are missing
	Events  []*eventView
	Actions *actionsView // nil for visitors who may only read
}

// An entryView is an entry with the requests that counted for it.
type entryView struct {
	*row
	Fields    string
	Limit     string
	Different bool // the limit is of different values
	Requests  []evidence
	Counted   int

	Refused     int64  // requests, about; 0 where that is not known
	LastRefused string // empty where it is not known
}

// passes is 1 for an entry in shadow mode or guarded, and 0 for one that refuses: those come first.
func (e *entryView) passes() int {
	if e.Class == "shadow" {
		return 1
	}
	return 0
}

// A refusedOf is how many requests an entry has refused.
type refusedOf struct {
	Refused     int64
	LastRefused *time.Time `json:"last_refused"`
}

func (r refusedOf) last() string {
	if r.LastRefused == nil {
		return ""
	}
	return r.LastRefused.UTC().Format(time.RFC3339)
}

// An evidence is one request that counted.
type evidence struct {
	Time   time.Time
	Method string
	Host   string
	Path   string
	Status any
	Agent  string
}

// A countsView is what a rule has counted of the key.
type countsView struct {
	Rule   string
	Key    string
	At     time.Time
	Limits []limitView
}

type limitView struct {
	Limit  string
	Count  int64
	Clears *time.Time
}

// An actionsView is the forms of a key.
type actionsView struct {
	Token   string
	Targets []string // that orders can name
	Key     string
	Listed  bool // there is something to lift
	Allowed []string
	Back    string
}

// key is the page of one key.
func (c *Console) key(w http.ResponseWriter, r *http.Request, v *visitor) error {
	key := r.URL.Query().Get("key") // with its spaces: it may be of a client who is named so
	if strings.TrimSpace(key) == "" {
		http.Redirect(w, r, root, http.StatusSeeOther)
		return nil
	}
	if len(key) > maxText {
		return problem{http.StatusBadRequest, "The key is too long."}
	}

	answer := c.ask(r, v, http.MethodGet, "/v1/find", url.Values{"key": {key}, "limit": {"20"}}, nil)
	if answer.status != http.StatusOK {
		return problem{answer.status, sentence(answer.detail())}
	}
	var found struct {
		Entries, Orders []*blocklist.Entry
		Next            string
		Sending         *struct{ Last time.Time }
	}
	var refused struct {
		Entries []refusedOf
	}
	if err := errors.Join(json.Unmarshal(answer.body.Bytes(), &found), json.Unmarshal(answer.body.Bytes(), &refused)); err != nil {
		return err
	}

	// A secret that somebody typed does not stay in the page and its address.
	if hidden := c.hiddenKey(key, found.Entries); hidden != "" {
		http.Redirect(w, r, keyLink(hidden), http.StatusSeeOther)
		return nil
	}

	shown := &keyView{Key: keytext.Shown(key), More: found.Next != ""}
	if found.Sending != nil {
		shown.Last = found.Sending.Last.UTC().Format(time.RFC3339)
	}
	now, lets := c.config.Now(), c.count().lets
	for i, e := range found.Entries {
		one := &entryView{Refused: refused.Entries[i].Refused, LastRefused: refused.Entries[i].last(), row: rowOf(e, now, lets), Fields: fieldsOf(e), Limit: keytext.Shown(e.Limit), Different: blocklist.IsDifferent(e.Limit)}
		one.Requests, one.Counted = c.evidence(r, v, e.ID)
		shown.Entries = append(shown.Entries, one)
	}
	slices.SortStableFunc(shown.Entries, func(a, b *entryView) int { return a.passes() - b.passes() })
	for _, e := range found.Orders {
		if e.Order != blocklist.OrderPardon {
			shown.Orders = append(shown.Orders, rowOf(e, now, nil))
		}
	}
	shown.Counts, shown.Faults = c.counts(r, v, key, found.Entries)
	if events, _ := c.events(r, v, url.Values{"key": {key}, "limit": {"50"}}); events != nil {
		shown.Events = events.Events
	}
	if v.writes {
		shown.Actions = &actionsView{Token: v.Token(), Targets: targetsOf(key, found.Entries), Key: key, Listed: len(found.Entries) > 0, Back: r.URL.RequestURI()}
		for _, e := range found.Orders {
			if e.Order == blocklist.OrderAllow {
				shown.Actions.Allowed = append(shown.Actions.Allowed, e.Target())
			}
		}
	}
	c.render(w, r, http.StatusOK, "key", &view{Title: shown.Key, Visitor: v, Notice: v.notice(), Body: shown})
	return nil
}

// fieldsOf writes the fields of a key of several.
func fieldsOf(e *blocklist.Entry) string {
	if len(e.Fields) < 2 {
		return ""
	}
	var all []string
	for name, value := range e.Fields {
		all = append(all, keytext.Shown(name+": "+value))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// targetsOf returns what an order about a key can name: the key itself if it is an address or names its field, and the
// fields of its entries.
func targetsOf(key string, entries []*blocklist.Entry) (targets []string) {
	if scope, _, err := blocklist.ParseTarget(key); err == nil && (scope == "ip" || strings.HasPrefix(key, scope+":")) {
		targets = append(targets, key)
	}
	for _, e := range entries {
		for name, value := range e.Fields {
			target := name + ":" + value
			if name == "ip" {
				target = value
			}
			if e.Source == blocklist.Verdict && !slices.Contains(targets, target) && len(targets) < maxShownEntries {
				targets = append(targets, target)
			}
		}
	}
	slices.Sort(targets[min(1, len(targets)):])
	return targets
}

// evidence returns the requests that counted for an entry, where the enforcer has them.
func (c *Console) evidence(r *http.Request, v *visitor, id string) (requests []evidence, counted int) {
	answer := c.ask(r, v, http.MethodGet, "/v1/evidence", url.Values{"id": {id}}, nil)
	var known struct {
		Requests []evidence
		Counted  int
	}
	if answer.status != http.StatusOK || json.Unmarshal(answer.body.Bytes(), &known) != nil {
		return nil, 0
	}
	return known.Requests, known.Counted
}

// counts asks for what each rule has counted of a key: the enforcer for inline rules, the aggregator for others.
func (c *Console) counts(r *http.Request, v *visitor, key string, entries []*blocklist.Entry) (all []*countsView, faults []string) {
	ctx, cancel := context.WithTimeout(r.Context(), askPatience)
	defer cancel()
	for _, one := range c.rulesOf(key, entries) {
		query := url.Values{"rule": {one.rule.Name}, "key": {one.key}}
		if one.rule.Inline {
			answer := c.ask(r, v, http.MethodGet, "/v1/keys", query, nil)
			all, faults = addCounts(all, faults, answer.status, answer.body.Bytes(), "the enforcer")
		}
		if !one.rule.CountsLog() && !one.rule.CountsBlocks() {
			continue
		}
		for _, part := range c.config.Parts {
			if part.Name != "aggregator" {
				continue
			}
			status, body, err := part.Get(ctx, "/v1/keys?"+query.Encode())
			if err != nil {
				status, body = 0, []byte(err.Error())
			}
			all, faults = addCounts(all, faults, status, body, "the aggregator")
		}
	}
	return all, faults
}

// addCounts adds an answer about a rule, or each fault once.
func addCounts(all []*countsView, faults []string, status int, body []byte, who string) ([]*countsView, []string) {
	one := &countsView{}
	var where struct{ Where string }
	if status == http.StatusOK && json.Unmarshal(body, one) == nil && json.Unmarshal(body, &where) == nil {
		if where.Where != "none" {
			one.Rule, one.Key = keytext.Shown(one.Rule), keytext.Shown(one.Key)
			all = append(all, one)
		}
		return all, faults
	}
	text := sentence(keytext.Shown(who + " does not report counts: " + strings.TrimSpace(string(body[:min(len(body), 300)]))))
	if !slices.Contains(faults, text) {
		faults = append(faults, text)
	}
	return all, faults
}

// hiddenKey returns the key of an entry that was found by its secret.
func (c *Console) hiddenKey(typed string, entries []*blocklist.Entry) string {
	rules := c.config.Rules()
	if rules == nil {
		return ""
	}
	hidden := rules.HiddenKeys(typed)
	for _, e := range entries {
		if slices.Contains(hidden, e.Key) {
			return e.Key
		}
	}
	return ""
}

// A ruleKey is a key in the form of a rule.
type ruleKey struct {
	rule *rule.Rule
	key  string
}

// rulesOf returns the rules that may count a key.
func (c *Console) rulesOf(key string, entries []*blocklist.Entry) (all []ruleKey) {
	rules := c.config.Rules()
	if rules == nil {
		return nil
	}
	scope, value, err := blocklist.ParseTarget(key)
	ofField := err == nil && scope != "ip"
	for _, one := range rules.Rules {
		if len(all) == maxAskedRules {
			break
		}
		typed := key
		if ofField {
			typed = value
			if !slices.Equal(one.Key.Words(), []string{scope}) {
				if typed = keyOf(one.Name, entries); typed == "" {
					continue
				}
			}
		}
		if canonical, err := one.Key.Canonical(typed); err == nil {
			all = append(all, ruleKey{one, canonical})
		}
	}
	return all
}

// keyOf returns the key of an entry of a rule.
func keyOf(name string, entries []*blocklist.Entry) string {
	for _, e := range entries {
		if e.Rule == name {
			return e.Key
		}
	}
	return ""
}
