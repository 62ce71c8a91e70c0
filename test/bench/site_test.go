package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// A site writes the log of many clients. Few of them make many requests and many make few, the same at every run.
type site struct {
	random  *rand.Rand
	clients int
	at      time.Time
}

func newSite(clients int, begin time.Time) *site {
	return &site{rand.New(rand.NewPCG(1, 2)), clients, begin}
}

// line is the next line, its client and its time in seconds.
func (s *site) line() (text, client string, at time.Time) {
	s.at = s.at.Add(time.Duration(s.random.ExpFloat64() * float64(meanGap)))
	n := int(math.Pow(s.random.Float64(), 3) * float64(s.clients))
	client = fmt.Sprintf("%d.%d.%d.7", 11+n/62_500, n/250%250, n%250)
	page := s.random.IntN(500)
	text = fmt.Sprintf("%s - - [%s] \"GET /shop/item/%d?from=%d HTTP/1.1\" 200 %d \"https://shop.example/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\"",
		client, s.at.Format("02/Jan/2006:15:04:05 -0700"), page, page%7, 500+page)
	return text, client, s.at.Truncate(time.Second)
}

// beginFor is the time of the first of so many lines, so that none of them is ahead of the clock.
func beginFor(lines int) time.Time {
	return time.Now().Add(-time.Duration(lines)*meanGap - time.Hour).UTC()
}

const meanGap = 30 * time.Millisecond

// A textbook keeps the time of every request and finds the clients that have broken one of the limits, and when
// each did so first.
type textbook struct {
	limits    []limit
	times     map[string][]int64
	offenders map[string]int64 // Unix seconds
}

// A limit is so many hits in so many milliseconds.
type limit struct {
	hits   int
	millis int64
}

var threeLimits = []limit{{10, 60_000}, {100, 3_600_000}, {1000, 86_400_000}}

func newTextbook() *textbook { return newTextbookOf(threeLimits) }

func newTextbookOf(limits []limit) *textbook {
	return &textbook{limits, map[string][]int64{}, map[string]int64{}}
}

// add adds the requests of a client in the order of their times.
func (t *textbook) add(client string, at time.Time) {
	t.times[client] = append(t.times[client], at.UnixMilli())
	times := t.times[client]
	for _, l := range t.limits {
		before := len(times) - 1 - l.hits
		if t.offenders[client] == 0 && before >= 0 && at.UnixMilli()-times[before] < l.millis {
			t.offenders[client] = at.Unix()
		}
	}
}
