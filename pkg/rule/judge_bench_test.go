package rule_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"weir/pkg/geoip"
	"weir/pkg/geoip/geoiptest"
	"weir/pkg/request"
	"weir/pkg/rule"
)

var oneRule = `
rules:
  - {name: per-ip, key: ip, limits: [10/min], match: 'path startsWith "/api/" and method != "OPTIONS"'}
`

var fiveRules = `
rules:
  - {name: per-ip, key: ip, limits: [10/min], match: 'path startsWith "/api/" and method != "OPTIONS"'}
  - {name: per-user, key: user, limits: [10/min]}
  - {name: logins, key: [ip, path], limits: [5/min], match: 'path == "/login" and method == "POST"'}
  - {name: megabytes, key: ip/24+56, limits: [500/hour], cost: 'bytes / 1024', count: served}
  - {name: errors, key: [ip, host], limits: [50/min], match: 'status in 400..499 and not (path matches "^/static/.*[.]css$")'}
allow:
  - {ip: [10.0.0.0/8, "2001:db8::/32"]}
  - {match: 'agent startsWith "kube-probe/"'}
`

func sample() *request.Request {
	return &request.Request{
		UnixMilli: 1_700_000_000_000, IP: netip.MustParseAddr("203.0.113.7"), User: "alice", Method: "GET", Host: "Shop.example.com:443",
		Path: "/api/orders/17", Query: "page=2", Status: 404, Bytes: 123456, Agent: "Mozilla/5.0 (X11; Linux x86_64)", Referrer: "https://shop.example.com/",
	}
}

func mustParse(t testing.TB, text string) *rule.Set {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func BenchmarkJudge(b *testing.B) {
	for name, text := range map[string]string{"rules=1": oneRule, "rules=5": fiveRules} {
		b.Run(name, func(b *testing.B) {
			judge, r := mustParse(b, text).NewJudge(), sample()
			b.ReportAllocs()
			for b.Loop() {
				judge.Hits(r)
			}
		})
	}
}

func BenchmarkKey(b *testing.B) {
	for _, words := range []string{"ip", "ip/24+56", "user", "ip,path", "host"} {
		b.Run(words, func(b *testing.B) {
			key, err := rule.ParseKey(words)
			if err != nil {
				b.Fatal(err)
			}
			r, buffer := sample(), make([]byte, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				buffer, _ = key.Append(buffer[:0], r)
			}
		})
	}
}

// Counting by the network of the client, next to counting by its address (rules=1): for addresses that are all new, and for
// a thousand that come again and again. The two databases have 200,000 networks each.
func BenchmarkJudgeByPlace(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var all []*geoip.Database
	for _, entry := range []geoiptest.Entry{{ASN: 1}, {Country: "A"}} {
		networks := entries{}
		for range 100_000 {
			networks[netip.PrefixFrom(random(r, false), 24).Masked().String()] = entry
			networks[netip.PrefixFrom(random(r, true), 48).Masked().String()] = entry
			if entry.ASN++; entry.Country != "" {
				entry = geoiptest.Entry{Country: string([]byte{'A' + byte(r.IntN(26)), 'A' + byte(r.IntN(26))})}
			}
		}
		all = append(all, database(b, networks))
	}

	text := func(key string) string {
		return `rules: [{name: a, key: ` + key + `, limits: [10/min], match: 'path startsWith "/api/" and method != "OPTIONS"'}]`
	}
	for _, of := range []struct {
		name      string
		addresses int
		six       bool
	}{{"new IPv4", 1 << 16, false}, {"new IPv6", 1 << 16, true}, {"1000 IPv4", 1000, false}, {"1000 IPv6", 1000, true}} {
		addresses := make([]netip.Addr, of.addresses)
		for i := range addresses {
			addresses[i] = random(r, of.six)
		}
		for _, key := range []string{"ip", "asn", "[asn, country]"} {
			b.Run(of.name+"/key="+key, func(b *testing.B) {
				judge, q, i := mustParse(b, text(key)).Located(geoip.Join(all...)).NewJudge(), sample(), 0
				b.ReportAllocs()
				for b.Loop() {
					q.IP = addresses[i%len(addresses)]
					judge.Hits(q)
					i++
				}
			})
		}
	}
}

// random is an address of a public network.
func random(r *rand.Rand, six bool) netip.Addr {
	if six {
		return netip.AddrFrom16([16]byte{0x2a, byte(r.IntN(16)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), 15: byte(r.Uint32())})
	}
	return netip.AddrFrom4([4]byte{1 + byte(r.IntN(126)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
}
