package backtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/geoip"
	"weir/pkg/geoip/geoiptest"
)

// A sprayed is one request of an address.
type sprayed struct {
	at time.Time
	ip string
}

// spread writes requests as a log, no line later than so much.
func spread(r *rand.Rand, all []sprayed, late time.Duration) string {
	type keyed struct {
		sprayed
		key time.Time
	}
	order := make([]keyed, len(all))
	for i, one := range all {
		order[i] = keyed{one, one.at.Add(time.Duration(r.Int64N(int64(late) + 1)))}
	}
	slices.SortStableFunc(order, func(a, b keyed) int { return a.key.Compare(b.key) })
	var b strings.Builder
	for i, one := range order {
		all[i] = one.sprayed
		fmt.Fprintf(&b, "%s - - [%s] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n", one.ip, one.at.Format("02/Jan/2006:15:04:05 -0700"))
	}
	return b.String()
}

// A networkBook is what a textbook says of a network.
type networkBook struct {
	blocks  []sprayed // of its addresses, that count
	until   time.Time
	got     Blocked
	members int
}

// groupsOf reads the requests in the order of time: an address is blocked for a minute when it sends more than four within
// ten seconds, and a network for five minutes when more than so many of its addresses were blocked within so long.
func groupsOf(all []sprayed, limit int, per time.Duration) map[string]*networkBook {
	slices.SortStableFunc(all, func(a, b sprayed) int { return a.at.Compare(b.at) })
	counting, until := map[string][]time.Time{}, map[string]time.Time{}
	networks := map[string]*networkBook{}
	for _, one := range all {
		prefix, _ := netip.MustParseAddr(one.ip).Prefix(24)
		n := networks[prefix.String()]
		if n == nil {
			n = &networkBook{}
			networks[prefix.String()] = n
		}
		if !one.at.Before(until[one.ip]) {
			counting[one.ip] = append(counting[one.ip], one.at)
			counting[one.ip] = slices.DeleteFunc(counting[one.ip], func(at time.Time) bool { return !at.After(one.at.Add(-10 * time.Second)) })
			if len(counting[one.ip]) > 4 {
				counting[one.ip], until[one.ip] = nil, one.at.Add(time.Minute)
				n.member(one, limit, per)
			}
		}
		n.got.Requests++
		if one.at.Before(n.until) {
			n.got.Refused++
		}
	}
	return networks
}

func (n *networkBook) member(one sprayed, limit int, per time.Duration) {
	if one.at.Before(n.until) {
		return
	}
	n.blocks = append(n.blocks, one)
	within := map[string]bool{}
	for _, b := range n.blocks {
		if b.at.After(one.at.Add(-per)) {
			within[b.ip] = true
		}
	}
	if len(within) <= limit {
		return
	}
	n.blocks, n.until = nil, one.at.Add(5*time.Minute)
	if n.got.Blocks++; n.got.Blocks == 1 {
		n.got.First, n.members = Instant(one.at.UnixMilli()), len(within)
	}
}

// A backtest of group rules decides as a textbook, for lines that come late too.
func TestBacktestOfGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	blocked := 0
	for range 15 {
		var all []sprayed
		at := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
		for range 4000 {
			at = at.Add(time.Duration(r.IntN(3)) * time.Second)
			ip := fmt.Sprintf("203.0.%d.%d", r.IntN(4), r.IntN(30))
			for range 1 + r.IntN(6)*r.IntN(2) {
				all = append(all, sprayed{at, ip})
			}
		}
		limit, per := 2+r.IntN(6), time.Duration(1+r.IntN(9))*time.Minute
		text := spread(r, all, 9*time.Minute)
		set := parseRules(t, fmt.Sprintf(`rules:
  - {name: per-ip, key: ip, limits: [4/10s], block: {for: 1m}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [%d/%dm], mode: enforce, block: {for: 5m}}`, limit, int(per.Minutes())))
		report := runConfig(t, Config{Rules: set, Inputs: []Input{fromText("log", text)}})
		got := map[string]Blocked{}
		for _, b := range report.Rules[1].Blocked {
			got[b.Key] = b
		}
		for key, n := range groupsOf(all, limit, per) {
			b := got[key]
			if n.got.Blocks == 0 {
				if b.Key != "" {
					t.Errorf("%s is blocked: %+v", key, b)
				}
				continue
			}
			blocked++
			if b.First != n.got.First || b.Blocks != n.got.Blocks || b.Refused != n.got.Refused || b.Requests != n.got.Requests || b.Group == nil || b.Group.Count != n.members || b.Peak < int64(n.members) {
				t.Errorf("%s: %+v, %+v, want %+v with %d members", key, b, b.Group, n.got, n.members)
			}
		}
	}
	if blocked < 20 {
		t.Errorf("only %d networks were blocked", blocked)
	}
}

// The blocks that time decides count in their networks too, when it does: also of addresses that send nothing more.
func TestGroupsCountTheBlocksOfShares(t *testing.T) {
	noon := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	var text strings.Builder
	for second := range 3600 {
		at := noon.Add(time.Duration(second) * time.Second).Format("02/Jan/2006:15:04:05 -0700")
		if n := second / 20; n < 4 {
			fmt.Fprintf(&text, "203.0.113.%d - - [%s] \"GET / HTTP/1.1\" 404 1 \"-\" \"-\"\n", n, at)
		}
		fmt.Fprintf(&text, "203.0.113.200 - - [%s] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n", at)
	}
	for at, want := range map[string]Blocked{"1m": {Blocks: 1, Refused: 299}, "2h": {Blocks: 1}} {
		set := parseRules(t, `rules:
  - {name: errors, key: ip, share: {of: status == 404, over: 50%, least: 20, within: 10m, late: `+at+`}, block: {for: 30m}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [3/10m], mode: enforce, block: {for: 5m}}`)
		report := runConfig(t, Config{Rules: set, Late: 3 * time.Hour, Inputs: []Input{fromText("log", text.String())}})
		late, _ := time.ParseDuration(at)
		first := Instant(noon.Add(79*time.Second + late).UnixMilli())
		if got := report.Rules[1].Blocked; len(got) != 1 || got[0].First != first || got[0].Blocks != want.Blocks || got[0].Refused != want.Refused || got[0].Group.Count != 4 {
			t.Errorf("late %s: %+v, want %+v from %v on", at, got, want, first)
		}
	}
}

// A spray of many addresses that break no limit, and a few of one network that do: the rule for addresses finds these, and
// the group rule their network and no other. The report names the addresses, and the share of those that did nothing.
func TestASprayIsFoundAsOneNetwork(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var all []sprayed
	begin := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
	for n := range 2000 { // three requests each
		for range 3 {
			all = append(all, sprayed{begin.Add(time.Duration(r.IntN(3600)) * time.Second), fmt.Sprintf("198.18.%d.%d", n/250, n%250)})
		}
	}
	for n := range 40 { // the attackers
		at := begin.Add(10*time.Minute + time.Duration(n)*time.Second)
		for range 5 {
			all = append(all, sprayed{at, fmt.Sprint("203.0.113.", n)})
		}
	}
	for n := range 10 { // their neighbours
		all = append(all, sprayed{begin.Add(15 * time.Minute), fmt.Sprint("203.0.113.", 200+n)})
	}
	text := spread(r, all, time.Minute)
	set := parseRules(t, `rules:
  - {name: per-ip, key: ip, limits: [4/10s], block: {for: 10m}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min], mode: enforce, block: {for: 1h}}`)
	report := runConfig(t, Config{Rules: set, Inputs: []Input{fromText("log", text)}})
	if got := len(report.Rules[0].Blocked); got != 40 {
		t.Errorf("%d addresses are blocked", got)
	}
	networks := report.Rules[1].Blocked
	if len(networks) != 1 || networks[0].Key != "203.0.113.0/24" || networks[0].First != Instant(begin.Add(10*time.Minute+5*time.Second).UnixMilli()) {
		t.Fatalf("%+v", networks)
	}
	if g := networks[0].Group; g.Count != 6 || g.Addresses != 45 || g.Innocent != 10 {
		t.Errorf("%+v", g)
	}
	var out bytes.Buffer
	if err := report.WriteText(&out, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = "203.0.113.0/24: 6 blocked addresses: 203.0.113.0, 203.0.113.1, 203.0.113.2, 203.0.113.3, 203.0.113.4, 203.0.113.5; " +
		"of 45 addresses that it refused, 10 were never blocked themselves (22.2%)"
	if !strings.Contains(out.String(), want) {
		t.Errorf("the report does not say %s:\n%s", want, out.String())
	}
}

// A botnet of 50,000 addresses of one provider, over 64 prefixes and all their /24, sends 150,000 requests at
// random times, three each on average. Few of them break the limit of the rule for addresses, and too few in any /24; the group rule by asn finds their
// provider and no other. The report counts those of its addresses that never did anything wrong, which include its other
// customers.
func TestASprayIsFoundAsOneProvider(t *testing.T) {
	const attackers, customers, visitors = 50_000, 400, 20_000
	r := rand.New(rand.NewPCG(3, 1))
	networks := map[string]geoiptest.Entry{} // every fourth prefix is of the attackers' provider
	for n := range 256 {
		number := uint32(64600 + n%40)
		if n%4 == 0 {
			number = 64500
		}
		networks[fmt.Sprintf("100.%d.%d.0/18", 64+n/4, n%4*64)] = geoiptest.Entry{ASN: number}
	}
	address := func(system bool) string { // of the provider, or of another one
		n := r.IntN(64)*4 + 1 + r.IntN(3)
		if system {
			n = r.IntN(64) * 4
		}
		return fmt.Sprintf("100.%d.%d.%d", 64+n/4, n%4*64+r.IntN(64), r.IntN(256))
	}

	begin := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
	within := func(from, to int) time.Time {
		return begin.Add(time.Duration(from*60+r.IntN((to-from)*60)) * time.Second)
	}
	var all []sprayed
	var botnet []string
	for known := map[string]bool{}; len(botnet) < attackers; {
		if ip := address(true); !known[ip] {
			known[ip], botnet = true, append(botnet, ip)
		}
	}
	for range 3 * attackers {
		all = append(all, sprayed{within(10, 30), botnet[r.IntN(attackers)]})
	}
	for range customers {
		ip := address(true)
		all = append(all, sprayed{within(0, 60), ip}, sprayed{within(30, 60), ip})
	}
	for n := range visitors {
		ip := address(false)
		for range 1 + r.IntN(4) {
			all = append(all, sprayed{within(0, 60), ip})
		}
		if n%250 == 0 { // some of them break the limit too
			for range 6 {
				all = append(all, sprayed{within(20, 25), ip})
			}
		}
	}

	database, err := geoip.Read("asn.mmdb", geoiptest.Bytes(t, 1, networks))
	if err != nil {
		t.Fatal(err)
	}
	set := parseRules(t, `rules:
  - {name: per-ip, key: ip, limits: [5/10min], block: {for: 1h}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min], mode: enforce, block: {for: 2h}}
  - {name: providers, on: blocked, key: asn, distinct: ip, limits: [20/10min], mode: enforce, block: {for: 2h}}`).Located(geoip.Join(database))
	report := runConfig(t, Config{Rules: set, Inputs: []Input{fromText("log", spread(r, all, time.Minute))}})
	few := len(report.Rules[0].Blocked)
	if few < 100 || few > attackers/40 {
		t.Errorf("%d addresses are blocked", few)
	}
	if prefixes := report.Rules[1].Blocked; len(prefixes) != 0 {
		t.Errorf("%d prefixes are blocked", len(prefixes))
	}
	found := report.Rules[2].Blocked
	if len(found) != 1 || found[0].Key != "64500" {
		t.Fatalf("%+v", found)
	}

	blocked := map[string]bool{}
	for _, b := range report.Rules[0].Blocked {
		blocked[b.Key] = true
	}
	first := time.UnixMilli(int64(found[0].First))
	of := geoip.Join(database)
	refusedFrom := func(from time.Time) (addresses, innocent int) {
		seen := map[string]bool{}
		for _, one := range all {
			if place := of.Find(netip.MustParseAddr(one.ip)); place.Number() != 64500 || one.at.Before(from) || seen[one.ip] {
				continue
			}
			if seen[one.ip] = true; !blocked[one.ip] {
				innocent++
			}
		}
		return len(seen), innocent
	}
	// Of the requests in the second of the block, those before it were served.
	most, mostInnocent := refusedFrom(first)
	least, leastInnocent := refusedFrom(first.Add(time.Second))
	g := found[0].Group
	if g.Count != 21 || g.Addresses < least || g.Addresses > most || g.Innocent < leastInnocent || g.Innocent > mostInnocent {
		t.Errorf("%d members, %d addresses, %d of them never blocked; want %d to %d, %d to %d", g.Count, g.Addresses, g.Innocent, least, most, leastInnocent, mostInnocent)
	}
	t.Logf("of %d addresses, the rule per address blocks %d; the provider is blocked %s after the beginning, and refuses %d requests of %d addresses, %d of them never blocked",
		attackers, few, first.Sub(begin.Add(10*time.Minute)), found[0].Refused, g.Addresses, g.Innocent)
}

// Of a bad /24 and few other bad addresses of a provider, the rule above blocks the provider only when enough addresses are
// left. The report knows that those of the /24 were blocked.
func TestARuleAboveCountsWhatIsLeft(t *testing.T) {
	begin := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
	var all []sprayed
	bad := func(minute int, ip string) {
		for range 6 {
			all = append(all, sprayed{begin.Add(time.Duration(minute) * time.Minute), ip})
		}
	}
	for n := range 12 { // the sixth begins the block of the /24
		bad(n, fmt.Sprint("203.0.113.", n))
	}
	for n := range 7 {
		bad(20+n, fmt.Sprintf("198.51.%d.7", n))
	}
	good := sprayed{begin.Add(40 * time.Minute), "203.0.113.200"}
	all = append(all, good, sprayed{good.at, "203.0.113.9"}, sprayed{good.at.Add(time.Second), "203.0.113.201"})
	text := spread(rand.New(rand.NewPCG(1, 1)), all, 0)
	database, err := geoip.Read("asn.mmdb", geoiptest.Bytes(t, 1, map[string]geoiptest.Entry{"203.0.113.0/24": {ASN: 64500}, "198.51.0.0/16": {ASN: 64500}}))
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]string{6: "64500 at 8:26", 7: ""} {
		set := parseRules(t, fmt.Sprintf(`rules:
  - {name: per-ip, key: ip, limits: [5/10min], block: {for: 5m}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/1h], mode: enforce, block: {for: 20m}}
  - {name: providers, on: blocked, above: sprays, key: asn, distinct: ip, limits: [%d/1h], mode: enforce, block: {for: 1h}}
  - {name: alone, on: blocked, key: asn, distinct: ip, limits: [10/1h], block: {for: 1h}}`, limit)).Located(geoip.Join(database))
		report := runConfig(t, Config{Rules: set, Inputs: []Input{fromText("log", text)}})
		got := ""
		for _, b := range report.Rules[2].Blocked {
			at := time.UnixMilli(int64(b.First)).UTC()
			got += fmt.Sprintf("%s at %d:%02d", b.Key, at.Hour(), at.Minute())
			if b.Group.Count != 7 || b.Group.Addresses != 4 || b.Group.Innocent != 2 {
				t.Errorf("%+v", b.Group)
			}
		}
		if alone := report.Rules[3].Blocked; got != want || len(alone) != 1 || len(report.Rules[1].Blocked) != 1 {
			t.Errorf("above at %d: %q, want %q; alone %+v", limit, got, want, alone)
		}
	}
}

// One subscriber may have a /48 of IPv6, which is 65,536 networks of 64 bits. Alone it gets no wider network blocked.
func TestOneSubscriberGetsNoProviderBlocked(t *testing.T) {
	begin := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	database, err := geoip.Read("asn.mmdb", geoiptest.Bytes(t, 1, map[string]geoiptest.Entry{"2001:db8::/32": {ASN: 64500}}))
	if err != nil {
		t.Fatal(err)
	}
	set := parseRules(t, `rules:
  - {name: per-ip, key: ip, limits: [5/10min], block: {for: 1h}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min], block: {for: 1h}}
  - {name: wide, on: blocked, key: ip/16+32, distinct: ip, limits: [20/10min], block: {for: 1h}}
  - {name: providers, on: blocked, key: asn, distinct: ip, limits: [20/10min], block: {for: 1h}}`).Located(geoip.Join(database))
	for format, want := range map[string]string{"2001:db8:7:%x::1": "2001:db8:7::/48", "2001:db8:%x:7::1": "2001:db8::/32 64500"} {
		var all []sprayed
		for n := range 60 {
			for i := range 6 {
				all = append(all, sprayed{begin.Add(time.Duration(n*6+i) * time.Second), fmt.Sprintf(format, n)})
			}
		}
		report := runConfig(t, Config{Rules: set, Inputs: []Input{fromText("log", spread(rand.New(rand.NewPCG(1, 1)), all, 0))}})
		var got []string
		for n, r := range report.Rules[1:] {
			for _, b := range r.Blocked {
				got = append(got, b.Key)
				if n > 0 && b.Group.Count != 21 {
					t.Errorf("%s: %+v", b.Key, b.Group)
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q are blocked, want %s", format, got, want)
		}
	}
}
