package request

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/gaissmai/bart"

	plain "weir/internal/address"
)

// A Client finds the client of a request that came through proxies. It is safe for concurrent use.
type Client struct{ trusted bart.Lite }

// NewClient makes a Client that trusts the headers of proxies with these addresses.
func NewClient(trusted []netip.Prefix) *Client {
	c := new(Client)
	for _, prefix := range trusted {
		c.trusted.Insert(plain.PlainPrefix(prefix))
	}
	return c
}

// Trusted are the proxies.
func (c *Client) Trusted() []netip.Prefix { return slices.Collect(c.trusted.AllSorted()) }

// Trusts reports whether the address is a proxy's.
func (c *Client) Trusts(address netip.Addr) bool { return c.trusted.Contains(plain.Plain(address)) }

// Resolve sets r.IP to the client's own address and reports whether that is a trusted proxy's. A trusted proxy that
// sends no client address is the client, unless the line was cut off before the header.
//
// A peer that is not trusted is the client, whatever it sends. Behind a trusted peer, and where the log names no peer,
// the client is the rightmost address in r.Forwarded that is not trusted. An entry that is not an address (unknown,
// _hidden) ends the search, since no trusted proxy vouches for the entries to its left. An empty entry, as at the end
// of a list with a trailing comma, is skipped.
func (c *Client) Resolve(r *Request) (proxy bool) {
	if r.IP.IsValid() && !c.trusted.Contains(r.IP) {
		return false
	}
	if r.cut && r.Forwarded == "" {
		r.IP = netip.Addr{} // the header may have been cut off: the proxy is not its client
		return false
	}
	rest := r.Forwarded
	for rest != "" {
		var entry string
		rest, entry = lastEntry(rest)
		address, ok := forwardedAddress(entry)
		if !ok {
			break
		}

		// Kept even if it is a proxy's: where all entries are trusted, the leftmost one is the client.
		r.IP = address
		if !c.trusted.Contains(address) {
			return false
		}
	}

	return r.IP.IsValid()
}

// lastEntry cuts the last entry that is not empty off a comma-separated list. A comma between quotes belongs to an
// entry of Forwarded (host="a,b"). The quotes are read from the right, where the own proxies write: a quote that a
// client has left open on the left cannot hide their entries, or become part of one.
func lastEntry(list string) (rest, last string) {
	list = strings.TrimRight(list, ", \t")
	comma := lastOutsideQuotes(list, ',')
	if comma < 0 {
		return "", list
	}
	return list[:comma], list[comma+1:]
}

// lastOutsideQuotes returns the last place of a character that is not in a quoted string of RFC 7239, or -1. s ends
// outside of quotes. If s also begins there, quoted strings are the same read from the left and from the right.
func lastOutsideQuotes(s string, c byte) int {
	last := strings.LastIndexByte(s, c)
	if last < 0 || strings.IndexByte(s[last:], '"') < 0 {
		return last
	}

	for i, quoted := len(s)-1, false; i >= 0; i-- {
		switch {
		case s[i] == '"':
			// Behind an odd number of backslashes it is part of the text.
			before := strings.TrimRight(s[:i], `\`)
			if (i-len(before))%2 == 0 {
				quoted = !quoted
			}
		case s[i] == c && !quoted:
			return i
		}
	}
	return -1
}

// forwardedAddress reads one entry of X-Forwarded-For (an address) or of RFC 7239's Forwarded
// (for="[2001:db8::1]:4711";proto=https).
func forwardedAddress(entry string) (netip.Addr, bool) {
	entry = strings.Trim(entry, " \t")
	if strings.IndexByte(entry, '=') >= 0 {
		entry = forParameter(entry)
	}
	address, ok := parseAddress(unquoted(entry))
	return address, ok && address.IsValid()
}

// forParameter returns the value of an entry's parameter for; empty when it has none, or two.
func forParameter(entry string) (value string) {
	for found := false; entry != ""; {
		pair := entry
		if semicolon := lastOutsideQuotes(entry, ';'); semicolon >= 0 {
			entry, pair = entry[:semicolon], entry[semicolon+1:]
		} else {
			entry = ""
		}

		name, text, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if found {
			return ""
		}
		value, found = text, true
	}

	return value
}

// unquoted removes the quotes around a value.
func unquoted(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}
