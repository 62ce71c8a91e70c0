package rule

import (
	"net/netip"
	"time"

	"github.com/gaissmai/bart"

	"weir/internal/address"
	"weir/internal/yamlfile"
	"weir/pkg/request"
)

// An Allow describes the requests that rules leave alone: those that meet all of its conditions.
type Allow struct {
	Prefixes []netip.Prefix // the client is in one of them; includes those of files
	Users    []string
	Hosts    []string // lower case, without port and trailing dot
	Match    string   // the expression as written
	Note     string
	Until    time.Time // it applies to requests before; the zero time means always
	Rules    []string  // the rules that it applies to; none means all

	networks bart.Lite
	named    bart.Lite // the addresses that the match names
	users    map[string]bool
	hosts    map[string]bool
	match    *expression
	before   *expression // match, where conditions on the response are not met
	until    int64       // Unix ms
	exempt   []bool      // by index in Set.Rules
	place    yamlfile.Fault
}

// plainList reports whether an allow is only a list of clients or users, for all rules and times.
func (a *Allow) plainList() bool {
	return len(a.Hosts) == 0 && a.match == nil && a.Until.IsZero() && len(a.Rules) == 0 &&
		(len(a.Prefixes) == 0 || len(a.Users) == 0)
}

// prepare makes the tables of the entry.
func (a *Allow) prepare(rules []*Rule) {
	for _, prefix := range a.Prefixes {
		a.networks.Insert(prefix)
	}
	for _, prefix := range a.match.networks() {
		a.named.Insert(prefix)
	}
	a.users, a.hosts = setOf(a.Users), setOf(a.Hosts)
	a.until = a.Until.UnixMilli()
	a.before = unmetBefore(a.match)
	a.exempt = make([]bool, len(rules))
	for i, r := range rules {
		a.exempt[i] = len(a.Rules) == 0 || setOf(a.Rules)[r.Name]
	}
}

func setOf(words []string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, word := range words {
		set[word] = true
	}
	return set
}

// allows reports whether the entry applies to a request, whatever the rule; match is its match, or before.
func (a *Allow) allows(s *subject, match *expression) bool {
	if !a.Until.IsZero() && s.UnixMilli >= a.until {
		return false
	}
	if len(a.Prefixes) > 0 && !containsAddress(&a.networks, s.Request) {
		return false
	}
	if len(a.Users) > 0 && !a.users[s.User] {
		return false
	}
	if len(a.Hosts) > 0 && !a.hosts[s.host()] {
		return false
	}

	// A match that fails on this request allows nothing: an error must not open a way past the rules.
	if match != nil {
		matches, ok := match.matches(s)
		return matches && ok
	}

	return true
}

func containsAddress(networks *bart.Lite, r *request.Request) bool {
	return r.IP.IsValid() && networks.Lookup(address.Plain(r.IP))
}

// allowed is the allows of a set, with the plain lists among them merged.
type allowed struct {
	networks bart.Lite
	users    map[string]bool
	rest     []*Allow
}

func newAllowed(allows []*Allow) *allowed {
	a := &allowed{users: map[string]bool{}}
	for _, allow := range allows {
		if !allow.plainList() {
			a.rest = append(a.rest, allow)
			continue
		}
		for _, prefix := range allow.Prefixes {
			a.networks.Insert(prefix)
		}
		for _, user := range allow.Users {
			a.users[user] = true
		}
	}

	return a
}

// exempts sets exempted for each rule that leaves a request alone, and reports whether all rules do.
func (a *allowed) exempts(s *subject, exempted []bool) (all bool) {
	if a.listed(s) {
		return true
	}
	clear(exempted)
	for _, allow := range a.rest {
		if allow.allows(s, allow.match) {
			allow.exempts(exempted)
		}
	}
	return false
}

// exemptsBefore is exempts for a request that has no response yet.
func (a *allowed) exemptsBefore(s *subject, exempted []bool) (all bool) {
	if a.listed(s) {
		return true
	}
	clear(exempted)
	for _, allow := range a.rest {
		if allow.allows(s, allow.before) {
			allow.exempts(exempted)
		}
	}
	return false
}

// listed reports whether a request is on a plain list. They come first: they are most of the entries, and cost one
// lookup however long they are.
func (a *allowed) listed(s *subject) bool {
	return a.networks.Size() > 0 && containsAddress(&a.networks, s.Request) || len(a.users) > 0 && a.users[s.User]
}

func (a *Allow) exempts(exempted []bool) {
	for i, exempt := range a.exempt {
		exempted[i] = exempted[i] || exempt
	}
}
