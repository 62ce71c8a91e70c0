package request

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The lines of these benchmarks are made up, but in the mix of real sites: long and short agents, a few paths requested
// often and many seldom, searches with long queries, IPv6 for one client in ten.

var (
	benchAgents = []string{
		"Dalvik/2.1.0 (Linux; U; Android 7.0; SM-G610F Build/NRD90M)",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		"curl/8.5.0", "okhttp/4.12.0", "kube-probe/1.30", "-",
	}
	benchReferrers = []string{"-", "-", "https://shop.example.com/", "https://www.google.com/", "https://shop.example.com/list?page=3"}
	benchMethods   = []string{"GET", "GET", "GET", "GET", "POST", "POST", "PUT", "OPTIONS"}
	benchStatuses  = []int{200, 200, 200, 200, 304, 404, 301, 429, 500}
)

type benchTraffic struct {
	random *rand.Rand
	at     time.Time
}

func newBenchTraffic() *benchTraffic {
	return &benchTraffic{rand.New(rand.NewPCG(1, 2)), time.Date(2026, 5, 4, 6, 25, 6, 0, time.UTC)}
}

func (b *benchTraffic) oneOf(list []string) string { return list[b.random.IntN(len(list))] }

// clock goes on by 30 ms on average.
func (b *benchTraffic) clock() time.Time {
	b.at = b.at.Add(time.Duration(b.random.IntN(60)) * time.Millisecond)
	return b.at
}

func (b *benchTraffic) address() string {
	client := b.random.IntN(20_000)
	if client%10 == 0 {
		return fmt.Sprintf("2001:db8:%x:%x::%x", client%7, client, client*31%65536)
	}
	return fmt.Sprintf("%d.%d.%d.%d", 1+client%223, client*7%256, client*13%256, client*29%256)
}

func (b *benchTraffic) target() string {
	switch b.random.IntN(4) {
	case 0:
		return "/"
	case 1:
		return fmt.Sprintf("/api/v1/items/%d?fields=name,price,stock&currency=EUR", b.random.IntN(10_000))
	case 2:
		return fmt.Sprintf("/search?q=%x&page=%d&utm_source=newsletter&utm_campaign=spring", b.random.Uint64(), b.random.IntN(9))
	}
	return fmt.Sprintf("/static/js/chunk-%08x.js", b.random.IntN(400))
}

func (b *benchTraffic) combined() string {
	return fmt.Sprintf(`%s - - [%s] "%s %s HTTP/1.1" %d %d "%s" "%s"`, b.address(), b.clock().Format("02/Jan/2006:15:04:05 -0700"),
		b.oneOf(benchMethods), b.target(), benchStatuses[b.random.IntN(len(benchStatuses))], b.random.IntN(100_000),
		b.oneOf(benchReferrers), b.oneOf(benchAgents))
}

func (b *benchTraffic) ingress() string {
	return b.combined() + fmt.Sprintf(` %d 0.%03d [shop-web-80] [] 10.42.%d.%d:8080 %d 0.%03d 200 %016x%016x`, 200+b.random.IntN(900),
		b.random.IntN(999), b.random.IntN(8), b.random.IntN(255), b.random.IntN(100_000), b.random.IntN(999), b.random.Uint64(), b.random.Uint64())
}

func (b *benchTraffic) alb() string {
	at := b.clock()
	const arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/web/73e2d6bc24d8a067"
	return fmt.Sprintf(`https %s app/shop/50dc6c495c0c9188 %s:%d 10.0.1.%d:8080 0.000 0.0%02d 0.000 %d %[6]d %d %d `+
		`"%s https://shop.example.com:443%s HTTP/2.0" "%s" TLS_AES_128_GCM_SHA256 TLSv1.3 %s "Root=1-%08x-%012x%012x" `+
		`"shop.example.com" "session-reused" 0 %s "forward" "-" "-" "10.0.1.7:8080" "200" "-" "-" TID_%016x`,
		at.Format("2006-01-02T15:04:05.000000Z"), b.address(), 1024+b.random.IntN(60_000), b.random.IntN(255), b.random.IntN(99),
		benchStatuses[b.random.IntN(len(benchStatuses))], b.random.IntN(900), b.random.IntN(100_000), b.oneOf(benchMethods), b.target(),
		b.oneOf(benchAgents), arn, at.Unix(), b.random.Uint32(), b.random.Uint32(), at.Format("2006-01-02T15:04:05.000000Z"), b.random.Uint64())
}

// benchLines are 100,000 lines: more than the caches hold, as in a log.
func benchLines(line func(*benchTraffic) string) []string {
	traffic := newBenchTraffic()
	var all strings.Builder
	ends := make([]int, 100_000)
	for i := range ends {
		all.WriteString(line(traffic))
		ends[i] = all.Len()
	}
	lines, start := make([]string, len(ends)), 0
	for i, end := range ends {
		lines[i], start = all.String()[start:end], end
	}
	return lines
}

func benchmarkParse(b *testing.B, format string, line func(*benchTraffic) string, read []string) {
	parser, err := NewParser(format, Options{})
	if err != nil {
		b.Fatal(err)
	}
	parser.Want(read)
	lines := benchLines(line)
	var r Request
	size := int64(0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		text := lines[i%len(lines)]
		if err := parser.Parse(text, &r); err != nil {
			b.Fatal(err, text)
		}
		size += int64(len(text))
	}
	b.SetBytes(size / int64(b.N))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

func BenchmarkCombined(b *testing.B) {
	benchmarkParse(b, "combined", (*benchTraffic).combined, nil)
}

func BenchmarkIngress(b *testing.B) {
	benchmarkParse(b, "ingress-nginx", (*benchTraffic).ingress, nil)
}

func BenchmarkALB(b *testing.B) { benchmarkParse(b, "alb", (*benchTraffic).alb, nil) }

// BenchmarkCombinedByAddress reads the address only, which is enough for most rules.
func BenchmarkCombinedByAddress(b *testing.B) {
	benchmarkParse(b, "combined", (*benchTraffic).combined, []string{"ip"})
}
