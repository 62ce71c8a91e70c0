package enforcer

import (
	"fmt"
	"math/big"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/address"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/cidr"
	"weir/pkg/request"
)

// Orders for wider prefixes than these need a confirmation: a slip in the number of bits is easily made.
const (
	wideBits4 = 8
	wideBits6 = 19
)

// affects returns sentences for the caller about an order's effects beyond those of a narrow one. An order with such
// effects needs a confirmation.
func (e *Enforcer) affects(r *http.Request, o *blocklist.Order) (affected []string) {
	prefix := o.Prefix()
	if !prefix.IsValid() {
		return affectsAll(o)
	}
	if prefix.Bits() < wideBits4 || prefix.Addr().Is6() && prefix.Bits() < wideBits6 {
		affected = append(affected, countOf(prefix))
	}
	if holdsIPv4(prefix) {
		affected = append(affected, "every address of IPv4, which some edges that keep the list look up as ::ffff:0:0/96")
	}

	// An allow shuts no one out. The checks that follow are for people who would block themselves.
	if o.Kind != blocklist.OrderBlock {
		return affected
	}

	if own := e.caller(r); own.IsValid() && prefix.Contains(own) {
		affected = append(affected, fmt.Sprintf("your own address, %s", own))
	}
	for _, loopback := range thisMachine {
		if prefix.Overlaps(loopback) {
			affected = append(affected, fmt.Sprintf("this machine itself (loopback, %s), where a firewall or an edge keeps the list", loopback))
		}
	}

	if trusted := e.ruling.Load().Client.Overlapping(prefix); len(trusted) > 0 {
		affected = append(affected, fmt.Sprintf("the trusted proxies %s, and everyone behind them where a firewall or an edge keeps the list", prefixesIn(trusted)))
	}
	return affected
}

// together returns how many addresses prefixes of one family have that are narrow alone and wide together; empty if
// they are not.
func together(prefixes []netip.Prefix) string {
	blocks := make([]cidr.Block, 0, len(prefixes))
	for _, prefix := range prefixes {
		blocks = append(blocks, cidr.Block{Prefix: prefix})
	}
	most := map[bool]*big.Int{false: addresses(netip.PrefixFrom(netip.IPv4Unspecified(), wideBits4)), true: addresses(netip.PrefixFrom(netip.IPv6Unspecified(), wideBits6))}
	sum := map[bool]*big.Int{false: new(big.Int), true: new(big.Int)}
	for _, one := range cidr.Disjoint(blocks) {
		is6 := one.Prefix.Addr().Is6()
		sum[is6].Add(sum[is6], addresses(one.Prefix))
	}

	switch {
	case sum[false].Cmp(most[false]) > 0:
		return fmt.Sprintf("%s addresses of IPv4 together, more than a /%d has", sum[false], wideBits4)
	case sum[true].Cmp(most[true]) > 0:
		return fmt.Sprintf("more addresses of IPv6 together than a /%d has", wideBits6)
	}
	return ""
}

// addresses is how many addresses a prefix has.
func addresses(p netip.Prefix) *big.Int {
	return new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
}

// holdsIPv4 reports that a prefix of IPv6 contains all mapped addresses of IPv4, and more.
func holdsIPv4(prefix netip.Prefix) bool { return prefix.Bits() < 96 && prefix.Contains(firstMapped) }

var firstMapped = netip.MustParseAddr("::ffff:0:0")

// affectsAll handles orders for other fields than addresses: values that nearly every request has.
func affectsAll(o *blocklist.Order) []string {
	switch {
	case o.Scope == "method" && (o.Value == http.MethodGet || o.Value == http.MethodPost || o.Value == http.MethodHead):
		return []string{"every request of the method " + o.Value + ", from any client"}
	case o.Scope == "path" && o.Value == "/":
		return []string{"every request for the path /"}
	}
	return nil
}

// countOf returns how many addresses a prefix has, in words.
func countOf(prefix netip.Prefix) string {
	family := "IPv4"
	if prefix.Addr().Is6() {
		family = "IPv6"
	}
	if prefix.Bits() == 0 {
		return "every address of " + family
	}
	free := prefix.Addr().BitLen() - prefix.Bits()
	if free < 64 {
		return fmt.Sprintf("%s addresses", new(big.Int).Lsh(big.NewInt(1), uint(free)))
	}
	return fmt.Sprintf("2^%d addresses, 1 in %d of %s", free, 1<<prefix.Bits(), family)
}

// maxShown is how many prefixes a sentence names.
const maxShown = 5

func prefixesIn(all []netip.Prefix) string {
	names := make([]string, 0, maxShown)
	for _, prefix := range all[:min(len(all), maxShown)] {
		names = append(names, address.Text(prefix))
	}

	text := strings.Join(names, ", ")
	if more := len(all) - maxShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// caller returns the address of the person who sent the request, also behind our own proxies; not valid over a unix
// socket.
func (e *Enforcer) caller(r *http.Request) netip.Addr {
	ruling := e.ruling.Load()
	q := request.Request{IP: peer(r), Forwarded: joined(r, ruling.forwarded)}
	ruling.Client.Resolve(&q)
	return q.IP
}

// confirmed returns an error that asks for a confirmation, or nil when there is nothing to confirm or the request
// confirms it.
func (q *orderRequest) confirmed(o *blocklist.Order, affected []string) error {
	if len(affected) == 0 || q.Confirm {
		return nil
	}
	p := problemf(http.StatusPreconditionRequired, `to %s %s affects %s: send "confirm": true (weir: --yes) to do it all the same`,
		o.Kind, o.Value, strings.Join(affected, "; "))
	p.Affects = affected
	return p
}

// passes returns why checks here let the target of a block through; empty when they refuse it.
func (e *Enforcer) passes(o *blocklist.Order) string {
	ruling := e.ruling.Load()
	if o.Kind != blocklist.OrderBlock {
		return ""
	}
	if ruling.Shadow {
		return "this enforcer is in shadow mode, and refuses no requests"
	}

	if slices.Contains(pauses(e.config.Set, o.From), blocklist.EveryRule) {
		return "everything is paused, and no request is refused until that ends (weir resume)"
	}
	return ""
}

// translated are addresses of translators that carry a public address of IPv4: checks know those clients by that IPv4
// address.
var translated = []netip.Addr{netip.MustParseAddr("64:ff9b::808:808"), netip.MustParseAddr("::ffff:0:808:808"), netip.MustParseAddr("2002:808:808::")}

// ofBits returns a text about targets that name a network by an address within it, such as 203.0.113.7/24: one of the
// two numbers is a slip.
func ofBits(targets ...string) string {
	var first string
	var count int
	for _, target := range targets {
		prefix, err := netip.ParsePrefix(strings.TrimPrefix(strings.TrimSpace(target), "ip:"))
		if err != nil || prefix == prefix.Masked() {
			continue
		}
		if count++; count == 1 {
			first = fmt.Sprintf("%s has bits after its first %d, and is taken as all of %s; for one address write %s", prefix, prefix.Bits(), address.Text(address.PlainPrefix(prefix)), prefix.Addr())
		}
	}
	if count > 1 {
		first += fmt.Sprintf(" (and %d more like it)", count-1)
	}
	return first
}

// ofTranslators returns a text about a prefix of translators: checks know its clients by the carried address, so it
// refuses none of them.
func (e *Enforcer) ofTranslators(o *blocklist.Order) string {
	prefix := o.Prefix()
	if o.Kind != blocklist.OrderBlock || !prefix.IsValid() || !slices.ContainsFunc(translated, prefix.Contains) {
		return ""
	}
	return "checks know clients behind a translator (NAT64, 6to4) by their IPv4 address, so this does not refuse them: block that address or prefix"
}

// ofProxies returns a text about a block of our own proxies: checks are about the client behind them.
func (e *Enforcer) ofProxies(o *blocklist.Order) string {
	prefix := o.Prefix()
	if o.Kind != blocklist.OrderBlock || !prefix.IsValid() {
		return ""
	}
	for _, trusted := range e.ruling.Load().Client.Overlapping(prefix) {
		if trusted.Bits() <= prefix.Bits() {
			return fmt.Sprintf("client.trusted_proxies has %s: checks refuse requests that a proxy there makes itself, not those that it passes on for its clients", trusted)
		}
	}
	return ""
}
