package backtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// generated is a log in the combined format, in order except for lines up to a minute late, as servers write it: few of
// 3,000 clients make many requests and many make few, some in bursts.
func generated(seed uint64, lines int) string { return generatedOf(seed, lines, 3000, 4) }

// generatedOf is such a log of so many clients; the higher skew is, the fewer of them make most of the requests.
func generatedOf(seed uint64, lines, clients int, skew float64) string {
	random := rand.New(rand.NewPCG(seed, 77))
	var b strings.Builder
	b.Grow(lines * 160)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for range lines {
		at = at.Add(time.Duration(random.ExpFloat64() * float64(900*time.Millisecond)))
		when := at
		if random.IntN(20) == 0 {
			when = at.Add(-time.Duration(random.IntN(60)) * time.Second)
		}
		client := int(math.Pow(random.Float64(), skew) * float64(clients))
		writeCombined(&b, client, when, random.IntN(50))
		if random.IntN(1000) == 0 {
			for range random.IntN(60) {
				at = at.Add(time.Duration(random.IntN(3)) * time.Second)
				writeCombined(&b, client, at, 0)
			}
		}
	}
	return b.String()
}

func writeCombined(b *strings.Builder, client int, at time.Time, path int) {
	address := fmt.Sprintf("%d.0.%d.%d", 11+client/62_500, client/250%250, client%250)
	if client%7 == 0 {
		address = fmt.Sprintf("2001:db8::%x:%x:%x", 1+client%3, 1+client>>16, 1+client&0xffff)
	}
	fmt.Fprintf(b, "%s - - [%s] \"GET /p%d?q=%d HTTP/1.1\" 200 %d \"-\" \"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0\"\n",
		address, at.Format("02/Jan/2006:15:04:05 -0700"), path, path, 100+path)
}
