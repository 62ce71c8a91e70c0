package topics

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/collector/pace"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/sink"
	"weir/test/wait"
)

// A backlog is a site's log, and the clients in it that make more than 60 requests in an hour.
type backlog struct {
	lines     []string
	offenders map[string]bool
}

// generatedBacklog is a log of some days: many clients that keep the limit, and offenders, each for an hour of its
// own.
func generatedBacklog(t testing.TB, days int) backlog {
	random := rand.New(rand.NewPCG(uint64(days), 4))
	begin := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	type request struct {
		at time.Time
		ip string
	}
	var requests []request
	span := time.Duration(days) * 24 * time.Hour
	for range days * 5000 {
		requests = append(requests, request{begin.Add(rand.N(span)), fmt.Sprintf("198.51.100.%d", random.IntN(250))})
	}
	for n := range days * 8 {
		start := begin.Add(time.Duration(random.Int64N(int64(span - time.Hour))))
		for range sink.Limit + 1 {
			requests = append(requests, request{start.Add(time.Duration(random.Int64N(int64(50 * time.Minute)))), fmt.Sprintf("203.0.113.%d", n)})
		}
	}
	slices.SortFunc(requests, func(a, b request) int { return a.at.Compare(b.at) })
	var b backlog
	for _, r := range requests {
		b.lines = append(b.lines, fmt.Sprintf(`%s - - [%s] "GET / HTTP/1.1" 200 2 "-" "test"`, r.ip, r.at.Format("02/Jan/2006:15:04:05 -0700")))
	}
	b.offenders = b.find(t)
	if len(b.offenders) < days*8 {
		t.Fatalf("%d offenders", len(b.offenders))
	}
	return b
}

// siteBacklog is the first lines of a real site's log.
func siteBacklog(t testing.TB, path string, lines int) backlog {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var b backlog
	for scan := bufio.NewScanner(plain); scan.Scan() && len(b.lines) < lines; {
		b.lines = append(b.lines, scan.Text())
	}
	b.offenders = b.find(t)
	return b
}

// find is the plain answer: a sliding log over the lines in the order of their times.
func (b backlog) find(t testing.TB) map[string]bool {
	parser, err := request.NewParser("combined", request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := rule.ParseKey("ip")
	if err != nil {
		t.Fatal(err)
	}
	times := map[string][]int64{}
	var r request.Request
	for _, line := range b.lines {
		if parser.Parse(line, &r) != nil {
			continue
		}
		if text, ok := key.Append(nil, &r); ok {
			times[string(text)] = append(times[string(text)], r.UnixMilli)
		}
	}
	found := map[string]bool{}
	for key, of := range times {
		if sink.Breaks(of) {
			found[key] = true
		}
	}
	return found
}

// Three collectors of one group, one of them late, read a backlog whose lines have no key: their hits show every
// offender. No collector finds it sparse.
func TestABacklogIsReadTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) { readBacklog(t, config, generatedBacklog(t, 2)) })
}

func TestASitesBacklogIsReadTogether(t *testing.T) {
	path := os.Getenv("WEIR_SITE_LOG")
	if path == "" {
		t.Skip("WEIR_SITE_LOG names no log of a site")
	}
	onBoth(t, func(t *testing.T, config kafka.Config) { readBacklog(t, config, siteBacklog(t, path, 1e6)) })
}

func readBacklog(t *testing.T, config kafka.Config, log backlog) {
	b := newBench(t, config, 8)
	b.sparse = 1
	b.make()
	b.fill(log)
	var gates gates // keep the first two from reading until each has its share
	b.opened = gates.shut
	first, second := b.start(b.sink), b.start(b.sink)
	wait.Until(t, "two to share the topic", func() bool { return first.owns() == 4 && second.owns() == 4 })
	b.opened = nil
	began, book := time.Now(), sink.NewTextbook(t, b.sink)
	gates.open()
	readUntil(t, book, len(log.lines)/10)
	third := b.start(b.sink)
	wait.Until(t, "the third to have a share", func() bool {
		if len(gates) == 0 && book.Count() > len(log.lines)/2 { // or all may be read before
			gates.shut(first)
			gates.shut(second)
		}
		return third.owns() > 0
	})
	gates.open()
	if read := book.Count(); read > len(log.lines)*9/10 {
		t.Errorf("%d of %d lines were read when the third had its share", read, len(log.lines))
	}
	readUntil(t, book, len(log.lines))
	t.Logf("%d lines, %d hits, %d too late, %d offenders, %s; a hit was at most %s older than its key's newest", len(log.lines), book.Hits, book.TooLate,
		len(log.offenders), time.Since(began).Round(time.Millisecond), book.FurthestBehind)
	log.compare(t, book)
	if first.said.Has("made no progress") {
		t.Error("a source is said to have stopped:", first.said.String())
	}
}

// fill writes a backlog to all partitions in turn.
func (b *bench) fill(log backlog) {
	b.t.Helper()
	for at := range slices.Chunk(log.lines, 10000) {
		var messages []topic.Message
		for i, line := range at {
			messages = append(messages, topic.Message{Partition: i % b.partitions, Value: []byte(line)})
		}
		b.write(messages...)
	}
}

// compare fails unless a textbook has found the offenders, in hits that each count once and in time.
func (b backlog) compare(t *testing.T, book *sink.Textbook) {
	t.Helper()
	if found := book.Offenders(); !maps.Equal(found, b.offenders) || book.Hits != len(b.lines) || book.TooLate > 0 {
		t.Errorf("%d offenders are found of %d, in %d hits, %d of them too late", len(found), len(b.offenders), book.Hits, book.TooLate)
	}
	if book.FurthestBehind > 9*time.Minute { // each partition is in order
		t.Error("a source was sent further ahead of others than it may be")
	}
}

// gates keep collectors from reading on.
type gates []*pace.Member

func (g *gates) shut(c *running) {
	gate := c.group.Join("gate", 0)
	gate.Wait(true) // it does not count as stalled
	*g = append(*g, gate)
}

func (g *gates) open() {
	for _, gate := range *g {
		gate.Leave()
	}
	*g = nil
}

// owns is the number of partitions that it reads.
func (r *running) owns() int { return len(r.Status().Sources[0].Logs) }

func readUntil(t *testing.T, book *sink.Textbook, hits int) {
	t.Helper()
	for begun := time.Now(); book.Count() < hits; time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("waited in vain for %d hits, there are %d", hits, book.Hits)
		}
	}
}
