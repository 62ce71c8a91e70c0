// Package examples holds a sample log and rules to try Weir on. The log is made up: a day at a small shop with some
// 150 visitors, all with addresses that are reserved for documentation, and three clients that ask for too much:
//
//   - 203.0.113.66 fetches page after page, two a second, for a few minutes;
//   - 2001:db8:bad:1::/64 reads the catalogue at a steady seven requests a minute, each from another address;
//   - 203.0.113.99 tries passwords, slowly, for hours.
package examples

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write access.log again")

func TestSampleLogIsTheOneMadeHere(t *testing.T) {
	made := newShop().log()
	if *update {
		if err := os.WriteFile("access.log", made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile("access.log")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, kept) {
		t.Error("access.log differs from what this test makes: go test ./examples -update")
	}
}

type line struct {
	at   time.Time
	text string
}

// A shop collects the lines of one day.
type shop struct {
	random *rand.Rand
	opens  time.Time
	lines  []line
}

func newShop() *shop {
	return &shop{
		random: rand.New(rand.NewPCG(2026, 3)),
		opens:  time.Date(2026, time.March, 3, 8, 0, 0, 0, time.UTC),
	}
}

func (s *shop) log() []byte {
	for i := range 150 {
		s.visitor(i)
	}
	s.probe()
	s.scraper()
	s.crawler()
	s.guesser()
	slices.SortStableFunc(s.lines, func(a, b line) int { return cmp.Compare(a.at.Unix(), b.at.Unix()) })
	var log bytes.Buffer
	for _, l := range s.lines {
		fmt.Fprintln(&log, l.text)
	}
	return log.Bytes()
}

// visitor comes once or twice a day, looks around at a person's pace, and sometimes signs in.
func (s *shop) visitor(i int) {
	c := client{address: visitorAddress(i), user: "-", agent: agents[s.random.IntN(len(agents))], referrer: "-"}
	signsIn := i%5 == 0
	for range 1 + s.random.IntN(2) {
		at := s.opens.Add(s.within(9 * time.Hour))
		if signsIn {
			s.request(c, at, "POST /login", 302, 0)
			c.user = users[i/5%len(users)]
		}
		for range 3 + s.random.IntN(7) {
			at = at.Add(4*time.Second + s.within(50*time.Second))
			page := pages[s.random.IntN(len(pages))]
			s.request(c, at, "GET "+page, 200, 2_000+s.random.IntN(30_000))
			c.referrer = "https://shop.example" + page
			if signsIn && s.random.IntN(2) == 0 {
				s.request(c, at.Add(time.Second), "GET /api/basket", 200, 100+s.random.IntN(400))
			}
		}
	}
}

// probe is the shop's own monitoring.
func (s *shop) probe() {
	c := client{"198.51.100.250", "-", "shop-monitor/2.1", "-"}
	for at := s.opens; at.Before(s.opens.Add(9 * time.Hour)); at = at.Add(2 * time.Minute) {
		s.request(c, at, "GET /health", 200, 2)
	}
}

func (s *shop) scraper() {
	c := client{"203.0.113.66", "-", "python-requests/2.32.3", "-"}
	at := s.opens.Add(2*time.Hour + 14*time.Minute)
	for i := range 420 {
		s.request(c, at, fmt.Sprintf("GET /product/%d?currency=EUR", 1000+i), 200, 8_000+s.random.IntN(4_000))
		at = at.Add(300*time.Millisecond + s.within(400*time.Millisecond))
	}
}

func (s *shop) crawler() {
	at := s.opens.Add(3*time.Hour + 40*time.Minute)
	for i := range 520 {
		address := fmt.Sprintf("2001:db8:bad:1::%x", 0x1000+s.random.IntN(0xefff))
		c := client{address, "-", "Mozilla/5.0 (compatible; CatalogueBot/1.0)", "-"}
		s.request(c, at, fmt.Sprintf("GET /catalogue?page=%d", i+1), 200, 20_000+s.random.IntN(9_000))
		at = at.Add(7*time.Second + s.within(3*time.Second))
	}
}

func (s *shop) guesser() {
	c := client{"203.0.113.99", "-", "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0", "https://shop.example/login"}
	at := s.opens.Add(25 * time.Minute)
	for range 720 {
		s.request(c, at, "POST /login", 401, 512)
		at = at.Add(25*time.Second + s.within(20*time.Second))
	}
}

type client struct{ address, user, agent, referrer string }

// request adds one line in the combined format.
func (s *shop) request(c client, at time.Time, what string, status, size int) {
	s.lines = append(s.lines, line{at, fmt.Sprintf(`%s - %s [%s] "%s HTTP/1.1" %d %d "%s" "%s"`,
		c.address, c.user, at.Format("02/Jan/2006:15:04:05 -0700"), what, status, size, c.referrer, c.agent)})
}

func (s *shop) within(d time.Duration) time.Duration { return time.Duration(s.random.Int64N(int64(d))) }

func visitorAddress(i int) string {
	switch i % 3 {
	case 0:
		return fmt.Sprintf("192.0.2.%d", 1+i)
	case 1:
		return fmt.Sprintf("198.51.100.%d", 1+i)
	}
	return fmt.Sprintf("2001:db8:%x::%x", 0x100+i, 0x10+i)
}

var (
	pages = []string{"/", "/catalogue", "/catalogue?page=2", "/product/1004", "/product/1017", "/product/1042", "/product/1101", "/search?q=kettle", "/search?q=lamp", "/basket", "/about", "/delivery"}
	users = []string{"alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy"}

	agents = []string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/144.0.0.0 Safari/537.36",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.0 Safari/605.1.15",
		"Mozilla/5.0 (X11; Linux x86_64; rv:147.0) Gecko/20100101 Firefox/147.0",
		"Mozilla/5.0 (Linux; Android 16; Pixel 10) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/144.0.0.0 Mobile Safari/537.36",
	}
)
