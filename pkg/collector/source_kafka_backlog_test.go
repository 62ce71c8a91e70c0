package collector

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
	"weir/pkg/hit"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// A backlog is a site's log, and who of it makes more than 60 requests in an hour.
type backlog struct {
	lines     []string
	offenders map[string]bool
}

const (
	backlogLimit = 60
	backlogPer   = time.Hour
	backlogLate  = 10 * time.Minute
)

// generatedBacklog is a log of so many days: many who keep the limit, and offenders, each for an hour of their own.
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
		for range backlogLimit + 1 {
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
		t.Skip(err)
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
		if breaks(of) {
			found[key] = true
		}
	}
	return found
}

// breaks says whether more than the limit lie in some span.
func breaks(times []int64) bool {
	slices.Sort(times)
	for i := backlogLimit; i < len(times); i++ {
		if times[i]-times[i-backlogLimit] < backlogPer.Milliseconds() {
			return true
		}
	}
	return false
}

// offenders is what a textbook sliding log finds in what was sent, in its order: hits that are older than their key's
// newest by more than the lateness do not count.
func (s *memorySink) offenders(t testing.TB, late time.Duration) (found map[string]bool, hits, tooLate int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = map[string]bool{}
	var r hit.Reader
	for _, partition := range s.partitions {
		positions := hit.NewPositions(1000, 48*time.Hour)
		times, newest := map[string][]int64{}, map[string]int64{}
		for _, record := range partition {
			if err := r.Reset(record); err != nil {
				t.Fatal(err)
			}
			if positions.Judge(r.Header(), r.Checksum(), time.Now().UnixMilli()) != hit.Apply {
				continue
			}
			for _, item := range r.Items() {
				key := string(r.Pairs()[item.Pair].Key)
				hits += int(item.Cost)
				if item.UnixMilli < newest[key]-late.Milliseconds() {
					tooLate += int(item.Cost)
					continue
				}
				newest[key] = max(newest[key], item.UnixMilli)
				for range item.Cost {
					times[key] = append(times[key], item.UnixMilli)
				}
			}
		}
		for key, of := range times {
			if breaks(of) {
				found[key] = true
			}
		}
	}
	return found, hits, tooLate
}

// A backlog whose lines have no key is read by three collectors of one group, of which one comes late: what they send
// shows every offender.
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
	b := newKafkaBench(t, config, 8)
	b.make()
	for at := range slices.Chunk(log.lines, 10000) {
		var messages []kafka.Message
		for i, line := range at {
			messages = append(messages, kafka.Message{Partition: i % b.partitions, Value: []byte(line)})
		}
		b.write(messages...)
	}
	began := time.Now()
	first := b.start(b.sink)
	b.start(b.sink)
	eventually(t, "a tenth to be read", func() bool { _, hits, _ := b.sink.offenders(t, backlogLate); return hits > len(log.lines)/10 })
	b.start(b.sink)
	hits, tooLate := 0, 0
	var found map[string]bool
	eventually(t, "all to be read", func() bool {
		time.Sleep(100 * time.Millisecond)
		found, hits, tooLate = b.sink.offenders(t, backlogLate)
		return hits >= len(log.lines)
	})
	t.Logf("%d lines, %d hits, %d too late, %d offenders, %s", len(log.lines), hits, tooLate, len(log.offenders), time.Since(began).Round(time.Millisecond))
	if !maps.Equal(found, log.offenders) {
		t.Errorf("%d offenders are found of %d", len(found), len(log.offenders))
	}
	if first.said.has("made no progress") {
		t.Error("a source is said to have stopped:", first.said.String())
	}
}
