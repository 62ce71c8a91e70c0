package crowdsec

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weir/internal/address"
)

// A filter is the query of a bouncer. Unknown parameters are ignored.
type filter struct {
	scopes     []string // empty means all
	value      string   // empty means any
	hasValue   bool
	types      string // empty means any
	origins    []string
	containing []string // lower case: a scenario's name must contain one of these
	lacking    []string // lower case: and none of these
	within     netip.Prefix
	contains   bool // the decision must contain within; otherwise within must contain the decision
	all        bool // also several decisions of one value

	limit, offset int
	after         int64 // ids greater than this
}

// parseFilter reads a query. When a parameter is repeated, the first one counts.
func parseFilter(query url.Values) (filter, error) {
	f := filter{
		scopes: scopesOf(cmp.Or(query.Get("scopes"), query.Get("scope"))), value: query.Get("value"), hasValue: query.Has("value"),
		types: query.Get("type"), origins: words(query.Get("origins")),
		containing: words(strings.ToLower(query.Get("scenarios_containing"))),
		lacking:    words(strings.ToLower(query.Get("scenarios_not_containing"))),
		contains:   true, all: query.Get("dedup") == "false",
	}

	if err := f.parseContains(query); err != nil {
		return f, err
	}
	for _, name := range []string{"ip", "range"} {
		if err := f.parseAddress(query, name); err != nil {
			return f, err
		}
	}

	return f, f.parsePage(query)
}

func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// scopesOf reads a list of scopes. CrowdSec's own scopes are accepted in any case.
func scopesOf(list string) []string {
	scopes := words(list)
	for i, scope := range scopes {
		switch strings.ToLower(scope) {
		case "ip":
			scopes[i] = scopeIP
		case "range":
			scopes[i] = scopeRange
		}
	}
	return scopes
}

func (f *filter) parseContains(query url.Values) (err error) {
	if query.Has("contains") {
		if f.contains, err = strconv.ParseBool(query.Get("contains")); err != nil {
			return fmt.Errorf("invalid contains value : %w: invalid filter", err)
		}
	}
	return nil
}

func (f *filter) parseAddress(query url.Values, name string) error {
	if !query.Has(name) {
		return nil
	}
	text := query.Get(name)
	prefix, err := address.Parse(text)
	if err != nil {
		return fmt.Errorf("unable to convert '%s' to int: invalid ip address '%s': invalid ip address / range", text, text)
	}
	f.within = prefix
	return nil
}

func (f *filter) parsePage(query url.Values) (err error) {
	if f.limit, err = number(query, "limit"); err != nil {
		return err
	}
	if f.offset, err = number(query, "offset"); err != nil {
		return err
	}
	after, err := number(query, "id_gt")
	f.after = int64(after)
	return err
}

func number(query url.Values, name string) (int, error) {
	if !query.Has(name) {
		return 0, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil {
		return 0, fmt.Errorf("invalid %s value : %w: invalid filter", name, err)
	}
	return max(n, 0), nil
}

// ofOne reports whether the query is about one client: an address, or a value.
func (f *filter) ofOne() bool {
	return f.hasValue || f.contains && f.within.IsValid() && f.within.IsSingleIP()
}

// wants reports whether a decision matches the filter.
func (f *filter) wants(r *row) bool {
	return (len(f.scopes) == 0 || slices.Contains(f.scopes, r.Scope)) &&
		(!f.hasValue || f.value == r.Value) &&
		(f.types == "" || f.types == banned) &&
		(len(f.origins) == 0 || slices.Contains(f.origins, r.Origin)) &&
		f.wantsScenario(r.Rule) && f.wantsAddress(r.prefix)
}

func (f *filter) wantsScenario(name string) bool {
	if len(f.containing) == 0 && len(f.lacking) == 0 {
		return true
	}
	name = strings.ToLower(name)
	has := func(part string) bool { return strings.Contains(name, part) }
	return (len(f.containing) == 0 || slices.ContainsFunc(f.containing, has)) && !slices.ContainsFunc(f.lacking, has)
}

func (f *filter) wantsAddress(prefix netip.Prefix) bool {
	if !f.within.IsValid() {
		return true
	}
	if !prefix.IsValid() {
		return false
	}
	outer, inner := prefix, f.within
	if !f.contains {
		outer, inner = inner, outer
	}
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// page returns the requested part of the decisions, sorted by id.
func (f *filter) page(rows []*row) []*row {
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.ID, b.ID) })
	rows = slices.DeleteFunc(rows, func(r *row) bool { return r.ID <= f.after })
	rows = rows[min(f.offset, len(rows)):]
	if f.limit > 0 {
		rows = rows[:min(f.limit, len(rows))]
	}
	return rows
}
