package rule

import (
	"net/netip"
	"time"

	"github.com/gaissmai/bart"

	"weir/internal/address"
	"weir/pkg/request"
)

// An Allow is what rules leave alone: the requests for which all that it gives holds.
type Allow struct {
	Prefixes []netip.Prefix // the client lies in one of them; those of files too
	Users    []string
	Hosts    []string // lower case, without port and the dot at the end
	Match    string   // the expression as written
	Note     string
	Until    time.Time // it holds for requests before; the zero time is for ever
	Rules    []string  // the rules that it is for; none are all

	networks bart.Lite
	users    map[string]bool
	hosts    map[string]bool
	match    *expression
	until    int64  // Unix ms
	exempt   []bool // by index in Set.Rules
}

// plainList says that an allow is a list of clients or users for all rules and times, and nothing besides.
func (a *Allow) plainList() bool {
	return len(a.Hosts) == 0 && a.match == nil && a.Until.IsZero() && len(a.Rules) == 0 &&
		(len(a.Prefixes) == 0 || len(a.Users) == 0)
}

// prepare makes the tables that allows asks.
func (a *Allow) prepare(rules []*Rule) {
	for _, prefix := range a.Prefixes {
		a.networks.Insert(prefix)
	}
	a.users, a.hosts = setOf(a.Users), setOf(a.Hosts)
	a.until = a.Until.UnixMilli()
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

// allows says whether the entry holds for a request, whatever the rule.
func (a *Allow) allows(s *subject) bool {
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
	if a.match != nil {
		matches, ok := a.match.matches(s)
		return matches && ok
	}

	return true
}

func containsAddress(networks *bart.Lite, r *request.Request) bool {
	return r.IP.IsValid() && networks.Lookup(address.Plain(r.IP))
}

// allowed is the allows of a set, the plain lists among them put together.
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

// exempts marks the rules that leave a request alone, and says whether it is all of them.
func (a *allowed) exempts(s *subject, marks []bool) (all bool) {
	if a.networks.Size() > 0 && containsAddress(&a.networks, s.Request) {
		return true
	}
	if len(a.users) > 0 && a.users[s.User] {
		return true
	}

	clear(marks)
	for _, allow := range a.rest {
		if !allow.allows(s) {
			continue
		}
		for i, exempt := range allow.exempt {
			marks[i] = marks[i] || exempt
		}
	}

	return false
}
