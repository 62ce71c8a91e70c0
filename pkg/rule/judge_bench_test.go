package rule_test

import (
	"net/netip"
	"testing"

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
