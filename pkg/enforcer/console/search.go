package console

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weir/internal/address"
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// Bounds of a search.
const (
	pageRows  = 50
	maxGroups = 100     // that are shown
	maxNets   = 100_000 // networks that are counted; entries of others are counted as others
	maxText   = 1100    // bytes of a searched text
)

// A query selects entries, as the address of the page has it.
type query struct {
	Text   string
	Rule   string
	Mode   string // enforce, shadow; empty is both
	Kind   string // rules, hand, let; empty is all that block
	Group  string // rule, network, refused; empty is none
	Before string // the place of the last row of the page before; empty on the first

	part   []byte       // that a key contains
	hidden [][]byte     // keys with hashes, for a text that may be a secret
	scope  string       // of part; empty for any
	prefix netip.Prefix // that a key overlaps; not valid where the text is no address
	before place
}

// A place is a row's place in the order of the list: newest first, then by rule and key.
type place struct {
	decided int64
	name    string
}

// after reports whether a place is behind another one on the page.
func (p place) after(other place) bool {
	return p.decided < other.decided || p.decided == other.decided && p.name > other.name
}

var (
	modes  = []string{"", "enforce", "shadow"}
	kinds  = []string{"", "rules", "hand", "let"}
	groups = []string{"", "rule", "network", byRefused}
)

// readQuery reads the parameters of Now. It refuses unknown values: a page that ignored them would show something else
// than what its address says.
func readQuery(values url.Values) (*query, error) {
	q := &query{Text: strings.TrimSpace(values.Get("q")), Rule: values.Get("rule"), Mode: values.Get("mode"), Kind: values.Get("kind"), Group: values.Get("group"), Before: values.Get("before")}
	for _, one := range []struct {
		name, value string
		known       []string
	}{{"mode", q.Mode, modes}, {"kind", q.Kind, kinds}, {"group", q.Group, groups}} {
		if !slices.Contains(one.known, one.value) {
			return nil, problem{http.StatusBadRequest, "The address of this page is wrong: " + one.name + " is none of " + strings.Join(one.known[1:], ", ") + "."}
		}
	}
	if len(q.Text) > maxText {
		return nil, problem{http.StatusBadRequest, "The searched text is too long."}
	}
	if q.Before != "" {
		var err error
		if q.before, err = readPlace(q.Before); err != nil {
			return nil, problem{http.StatusBadRequest, "The address of this page is wrong: before is not a place in the list."}
		}
	}

	q.part = []byte(q.Text)
	if prefix, err := address.Parse(q.Text); err == nil {
		q.prefix = prefix
	} else if scope, value, err := blocklist.ParseTarget(q.Text); err == nil && scope != "ip" && strings.HasPrefix(q.Text, scope+":") {
		q.scope, q.part = scope, []byte(value)
	}
	return q, nil
}

// hide searches for the hashes of a text that may be a secret.
func (q *query) hide(rules *rule.Set) {
	if rules == nil {
		return
	}
	for _, key := range rules.HiddenKeys(q.Text) {
		q.hidden = append(q.hidden, []byte(key))
	}
	if q.scope != "" {
		q.part = []byte(rules.HiddenValue(q.scope, string(q.part)))
	}
}

func (p place) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.decided, 10) + "/" + p.name))
}

func readPlace(text string) (place, error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return place{}, err
	}
	number, name, _ := strings.Cut(string(data), "/")
	decided, err := strconv.ParseInt(number, 10, 64)
	return place{decided, name}, err
}

// values are the parameters that select the same entries, without a page.
func (q *query) values() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"q": q.Text, "rule": q.Rule, "mode": q.Mode, "kind": q.Kind, "group": q.Group} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values
}

// A subject is what a search knows of an entry without decoding it.
type subject struct {
	rule   string
	key    []byte
	shadow bool
	kind   blocklist.Kind // 0 for a verdict
}

// wants reports whether an entry is selected, but for its field, which fields asks.
func (q *query) wants(s subject) bool {
	if !q.wantsKind(s.kind) {
		return false
	}
	if q.Mode != "" && s.shadow != (q.Mode == "shadow") || q.Rule != "" && s.rule != q.Rule {
		return false
	}
	isHidden := func(key []byte) bool { return bytes.Equal(s.key, key) }
	if len(q.part) == 0 || bytes.Contains(s.key, q.part) || slices.ContainsFunc(q.hidden, isHidden) {
		return true
	}
	if !q.prefix.IsValid() || !mayOverlap(q.prefix, s.key) {
		return false
	}
	own, err := address.Parse(string(s.key))
	return err == nil && own.Overlaps(q.prefix)
}

func (q *query) wantsKind(kind blocklist.Kind) bool {
	switch kind {
	case blocklist.OrderPardon:
		return false
	case blocklist.OrderAllow, blocklist.OrderPause:
		return q.Kind == "let"
	case blocklist.OrderConfirm:
		return q.Kind == "hand"
	case blocklist.OrderBlock:
		return q.Kind == "" || q.Kind == "hand"
	}
	return q.Kind == "" || q.Kind == "rules"
}

// mayOverlap is a cheap answer to whether a key overlaps a prefix: a single address overlaps another one only if it is
// the same, and then contains its text.
func mayOverlap(prefix netip.Prefix, key []byte) bool {
	if len(key) == 0 || len(key) > len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128") {
		return false
	}
	if prefix.Addr().Is4() == (bytes.IndexByte(key, ':') >= 0) {
		return false
	}
	return !prefix.IsSingleIP() || bytes.IndexByte(key, '/') >= 0
}

// fields reports whether an entry has the searched field.
func (q *query) fields(e *blocklist.Entry) bool {
	if q.scope == "" {
		return true
	}
	value, ok := e.Fields[q.scope]
	return ok && strings.Contains(value, string(q.part))
}

// A found is the result of a search.
type found struct {
	entries []*blocklist.Entry // of the page, newest first
	next    string             // the place of its last one; empty where it is the last page
	total   int                // that are selected
	groups  []group
	others  int // selected entries of groups that are not shown
}

// A group is the selected entries of one rule or network.
type group struct {
	Name            string
	Entries, Shadow int
	Newest          int64
}

// search looks through the complete list.
func (c *Console) search(q *query, now int64) *found {
	f := &found{}
	var first []ranked // a heap would cost more: most entries are older than all that it has
	var oldest place
	grouping := newGrouping(q.Group)
	defer c.config.Turn()()
	for h := range c.config.Set.Held(now) {
		s := subject{h.Rule(), h.KeyBytes(), h.Shadow(), h.Kind()}
		if !q.wants(s) || q.scope != "" && !q.fields(h.Entry()) {
			continue
		}
		f.total++
		if grouping != nil {
			grouping.add(s, h)
			continue
		}
		at := place{decided: h.Decided()}
		if at.decided < oldest.decided {
			continue
		}
		at.name = s.rule + "/" + string(s.key)
		if q.Before != "" && !at.after(q.before) {
			continue
		}
		first = append(first, ranked{at, h})
		if len(first) >= 4*pageRows {
			first = newest(first, pageRows+1)
			oldest = first[len(first)-1].place
		}
	}

	if grouping != nil {
		f.groups, f.others = grouping.largest()
		return f
	}
	first = newest(first, pageRows+1)
	if len(first) > pageRows {
		first = first[:pageRows]
		f.next = first[pageRows-1].place.String()
	}
	for _, one := range first {
		f.entries = append(f.entries, one.held.Entry())
	}
	return f
}

type ranked struct {
	place
	held blocklist.Held
}

func newest(all []ranked, most int) []ranked {
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.decided, a.decided), strings.Compare(a.name, b.name))
	})
	return all[:min(most, len(all))]
}

// A grouping counts entries by rule or network.
type grouping struct {
	byNetwork bool
	rules     map[string]*group
	networks  map[netip.Prefix]*group
	others    int
}

func newGrouping(by string) *grouping {
	if by == "" {
		return nil
	}
	return &grouping{byNetwork: by == "network", rules: map[string]*group{}, networks: map[netip.Prefix]*group{}}
}

// The networks that addresses are grouped by.
const (
	network4 = 24
	network6 = 48
)

func (g *grouping) add(s subject, h blocklist.Held) {
	var of *group
	if g.byNetwork {
		of = g.network(s)
	} else if of = g.rules[s.rule]; of == nil {
		of = &group{Name: s.rule}
		g.rules[s.rule] = of
	}
	if of == nil {
		g.others++
		return
	}
	of.Entries++
	if s.shadow {
		of.Shadow++
	}
	of.Newest = max(of.Newest, h.Decided())
}

// network returns the group of a key's network, or nil for a key that is no address.
func (g *grouping) network(s subject) *group {
	own, err := address.Parse(string(s.key))
	if err != nil {
		return nil
	}
	bits := network4
	if own.Addr().Is6() {
		bits = network6
	}
	prefix, _ := own.Addr().Prefix(min(bits, own.Bits()))
	of := g.networks[prefix]
	if of == nil && len(g.networks) < maxNets {
		of = &group{}
		g.networks[prefix] = of
	}
	return of
}

// largest returns the groups to show, and how many entries are in no group or in one that is not shown.
func (g *grouping) largest() (all []group, others int) {
	for _, one := range g.rules {
		all = append(all, *one)
	}
	for prefix, one := range g.networks {
		one.Name = address.Text(prefix)
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.Entries, a.Entries), strings.Compare(a.Name, b.Name))
	})
	others = g.others
	for _, one := range all[min(len(all), maxGroups):] {
		others += one.Entries
	}
	return all[:min(len(all), maxGroups)], others
}
