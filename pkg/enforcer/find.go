package enforcer

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/netip"
	"strconv"

	"weir/internal/address"
	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// Bounds of searches for all entries with a key. Each reads the entire list.
const (
	usualFound = 1000   // entries in an answer by default
	maxFound   = 10_000 // the most that a request may ask for
	maxFinding = 4      // searches at a time
)

// A found is the answer to GET /v1/find, or a page of it.
type found struct {
	Key     string             `json:"key"`
	Entries []*refusingEntry   `json:"entries"`
	Orders  []*blocklist.Entry `json:"orders"`
	Next    string             `json:"next,omitempty"` // the parameter after for the next page
	Sending *sending           `json:"sending,omitempty"`
}

// find is GET /v1/find: all entries that contain a key, a page at a time.
func (e *Enforcer) find(w http.ResponseWriter, r *http.Request) error {
	if _, err := e.Admit(r, keys.Read); err != nil {
		return err
	}
	q, err := readFindRequest(r)
	if err != nil {
		return err
	}

	rules := e.ruling.Load().Rules
	q.hidden = rules.HiddenKeys(q.key)
	q.locate(rules)
	leave, err := e.mayFind(r)
	if err != nil {
		return err
	}
	defer leave()
	now := e.config.Now().UnixMilli()
	answer := found{Key: q.key, Entries: []*refusingEntry{}, Orders: []*blocklist.Entry{}}
	end := e.SearchTurn()
	page, more := q.page(e.config.Set, now)
	end()

	// Blocks by hand are shown with the verdicts: both refuse. Allows and pauses are apart.
	for _, one := range page {
		switch {
		case one.Entry != nil:
			answer.Entries = append(answer.Entries, e.refusalsOf(one.Entry, now))
		case one.Order.Kind == blocklist.OrderBlock:
			answer.Entries = append(answer.Entries, e.refusalsOf(one.Order.Entry(), now))
		default:
			answer.Orders = append(answer.Orders, one.Order.Entry())
		}
	}

	if more {
		answer.Next = base64.RawURLEncoding.EncodeToString([]byte(page[len(page)-1].place))
	}
	ids := make([]string, len(answer.Entries))
	for i, entry := range answer.Entries {
		ids[i] = entry.ID
	}
	answer.Sending = e.sending(ids, now)
	writeJSON(hurry(w), http.StatusOK, answer)
	return nil
}

// SearchTurn waits for a turn to look through the list, so that checks keep half of the processors for any number of
// searches. It returns the function that ends the turn.
func (e *Enforcer) SearchTurn() (end func()) { return e.searches.take() }

// mayFind waits for a free place for a search.
func (e *Enforcer) mayFind(r *http.Request) (leave func(), err error) {
	return place(r, e.finding, "look through the list")
}

// A findRequest is a search, and the page of its result.
type findRequest struct {
	key, rule string
	hidden    []string   // forms of the key with hashes of secrets, and the networks and countries of an address
	client    netip.Addr // the address, if its networks are searched for too
	after     string     // the place of the last entry of the previous page
	limit     int
}

func readFindRequest(r *http.Request) (*findRequest, error) {
	values, err := parameters(r, []string{"key", "rule", "limit", "after"})
	if err != nil {
		return nil, err
	}

	for name := range values {
		if values.Get(name) == "" && name != "key" {
			return nil, problemf(http.StatusBadRequest, "%s is empty: give a value, or leave it out", name)
		}
	}

	q := &findRequest{key: values.Get("key"), rule: values.Get("rule"), limit: usualFound}
	if q.key == "" {
		return nil, problemf(http.StatusBadRequest, "the key is missing: give one such as 203.0.113.7 or alice")
	}

	if limit := values.Get("limit"); limit != "" {
		if q.limit, err = strconv.Atoi(limit); err != nil || q.limit < 1 || q.limit > maxFound {
			return nil, problemf(http.StatusBadRequest, "limit is a number from 1 to %d, not %q", maxFound, limit)
		}
	}

	// The place is a record's key, which may contain any bytes.
	after, err := base64.RawURLEncoding.DecodeString(values.Get("after"))
	if err != nil {
		return nil, problemf(http.StatusBadRequest, "after is the value of next in the page before, not %q", values.Get("after"))
	}

	q.after = string(after)
	return q, nil
}

// locate has entries found too whose keys have the network or the country of the address that is searched for.
func (q *findRequest) locate(rules *rule.Set) {
	databases := rules.GeoIP()
	ip, err := netip.ParseAddr(q.key)
	if databases == nil || err != nil {
		return
	}
	q.client = address.Plain(ip)
	place := databases.Find(q.client)
	for _, f := range databases.Fields() {
		if text := place.Text(f); text != "" {
			q.hidden = append(q.hidden, f.String()+":"+rules.HiddenValue(f.String(), text))
		}
	}
}

// ofAnother reports whether an entry is only found by its network, and is about another address.
func (q *findRequest) ofAnother(e *blocklist.Entry) bool {
	if !q.client.IsValid() || e.Fields["ip"] == "" {
		return false
	}
	prefix, err := address.Parse(e.Fields["ip"])
	return err == nil && !prefix.Contains(q.client)
}

func (q *findRequest) wants(one blocklist.Record) bool {
	switch {
	case one.Entry != nil && q.ofAnother(one.Entry):
		return false
	case one.Entry != nil:
		return q.rule == "" || q.rule == one.Entry.Rule
	case one.Order.Kind == blocklist.OrderBlock:
		return q.rule == "" || q.rule == blocklist.ManualRule
	}
	return true
}

// page returns the entries after the previous page, sorted by the records' keys, and whether there are more. It keeps
// no more than a page in memory.
func (q *findRequest) page(set *blocklist.Set, now int64) (page []placed, more bool) {
	first := best[placed]{most: q.limit, compare: func(a, b placed) int { return cmp.Compare(a.place, b.place) }}
	for one := range set.Find(q.key, now, q.hidden...) {
		if !q.wants(one) {
			continue
		}
		p := placed{one, one.Place()}
		if p.place <= q.after {
			continue
		}

		// The list is in no order, and may be a million entries long.
		first.add(p)
	}

	page, dropped := first.sorted()
	return page, dropped > 0
}

// A placed is a record with its sort key.
type placed struct {
	blocklist.Record
	place string
}
