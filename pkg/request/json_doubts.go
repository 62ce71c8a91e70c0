package request

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// clientDoubts count, over a sample, the records of JSON in which a member that was not taken has another address that
// may be the client's.
type clientDoubts struct{ of map[clientDoubt]int }

// A clientDoubt is two members that may both have the client's address; taken is empty for records without a client.
type clientDoubt struct{ taken, other string }

// see looks at a record whose client is the address of the path with that index.
func (d *clientDoubts) see(p *jsonParser, m *jsonMapping, index int, client netip.Addr) {
	paths := m.roles[roleIP]
	for _, field := range paths[index+1:] {
		d.add(p, paths[index].slot, field.slot, client)
	}
	for _, slot := range p.scan.found {
		if (slot >= len(m.uses) || !m.uses[slot]) && namesClient(p.scan.paths[slot]) {
			d.add(p, paths[index].slot, slot, client)
		}
	}
}

// lacks looks at a record in which no member has the client.
func (d *clientDoubts) lacks(p *jsonParser) {
	for _, slot := range p.scan.found {
		if namesClient(p.scan.paths[slot]) {
			d.add(p, -1, slot, netip.Addr{})
		}
	}
}

func (d *clientDoubts) add(p *jsonParser, taken, other int, client netip.Addr) {
	address, ok := parseAddress(p.scan.textAt(other))
	if !ok || !address.IsValid() || address == client {
		return
	}
	if d.of == nil {
		d.of = map[clientDoubt]int{}
	}
	one := clientDoubt{other: p.scan.paths[other]}
	if taken >= 0 {
		one.taken = p.scan.paths[taken]
	}
	d.of[one]++
}

// worst is the doubt of the most records, and their number; 0 when there is none.
func (d *clientDoubts) worst() (worst clientDoubt, records int) {
	for _, one := range slices.SortedFunc(maps.Keys(d.of), func(a, b clientDoubt) int {
		return cmp.Or(cmp.Compare(a.taken, b.taken), cmp.Compare(a.other, b.other))
	}) {
		if d.of[one] > records {
			worst, records = one, d.of[one]
		}
	}
	return worst, records
}

// namesClient reports whether a member that no shape has for the client is named as if it had the client's address:
// x_real_ip, client.ip, RemoteAddress. Headers are left out, because clients write them: client.header is for these. So
// is nginx's realip_remote_addr, the address of a proxy, and a name that a client may have made up.
func namesClient(path string) bool {
	for i := 0; i < len(path); i++ {
		if c := path[i]; !isAlphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	name := strings.NewReplacer(".", "", "_", "", "-", "").Replace(strings.ToLower(path))
	if name == "ip" || name == "ipaddress" || name == "client" {
		return true
	}
	if name == "realipremoteaddr" || strings.HasPrefix(name, "http") || strings.Contains(name, "header") {
		return false
	}
	return slices.ContainsFunc([]string{"clientip", "clientaddr", "clientaddress", "clienthost", "remoteip", "remoteaddr", "remoteaddress",
		"remotehost", "realip", "connectingip", "sourceip", "sourceaddress", "srcip", "userip", "peerip", "peeraddr",
		"peeraddress"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

func isAlphanumeric(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c-'0' <= 9 }

// Doubt describes two members of JSON that may both have the client's address, or a member that may have it where none
// is taken, and how to choose; empty when there are none.
func (c Choice) Doubt() string {
	switch {
	case c.doubtful == 0:
		return ""
	case c.doubt.taken == "":
		return fmt.Sprintf("no client is read from %d of %d requests, and %s has an address in them: if it is the client's, name it, with --field ip=%s or, in weir.yaml, fields: {ip: %s}",
			c.doubtful, c.Lines, c.doubt.other, c.doubt.other, c.doubt.other)
	}
	return fmt.Sprintf("%s is taken for the client's address, and %s has another address in %d of %d requests: name the right one, which clients cannot write, with --field ip=%s or, in weir.yaml, fields: {ip: %s}",
		c.doubt.taken, c.doubt.other, c.doubtful, c.Lines, c.doubt.other, c.doubt.other)
}
