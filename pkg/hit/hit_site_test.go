package hit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"os"
	"testing"
	"time"
)

// siteLog is a real access log, next to the project where there is one.
const siteLog = "../../../shared/data/site-a.nginx-combined.log.gz"

// readSite returns the addresses and times of the log as hits of one rule.
func readSite(tb testing.TB) mixture {
	file, err := os.Open(siteLog)
	if err != nil {
		tb.Skipf("no real log to measure on: %v", err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		tb.Fatal(err)
	}
	m := mixture{rules: []string{"per-ip"}, keys: make([]byte, 0, 16<<20)}
	lines := bufio.NewScanner(plain)
	for lines.Scan() {
		ip, rest, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		_, rest, _ = bytes.Cut(rest, []byte("["))
		stamp, _, _ := bytes.Cut(rest, []byte("]"))
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", string(stamp))
		if err != nil {
			tb.Fatal(err)
		}
		m.add(0, ip, at.UnixMilli(), 1)
	}
	return m
}

// measure packs the hits of each partition into batches of at most so many, and returns the bytes, the hits
// and the items that were written.
func measure(tb testing.TB, m mixture, partitions, most int) (size, hits, items int) {
	parts := make([]mixture, partitions)
	for _, h := range m.hits {
		p := &parts[Partition(m.rules[h.rule], h.key, partitions)]
		p.rules = m.rules
		p.hits = append(p.hits, h)
	}
	w := NewWriter()
	for _, p := range parts {
		for len(p.hits) > 0 {
			n := p.part(0, min(most, len(p.hits))).fill(w)
			record, err := w.Append(nil, benchHeader)
			if err != nil || n == 0 || len(record) > MaxBytes {
				tb.Fatalf("%d hits fit into %d bytes: %v", n, len(record), err)
			}
			size, hits, items = size+len(record), hits+n, items+w.Len()
			p.hits = p.hits[n:]
		}
	}
	return size, hits, items
}

func TestBytesPerHitOnARealLog(t *testing.T) { testBytesPerHit(t, readSite(t)) }

func TestBytesPerHit(t *testing.T) { testBytesPerHit(t, newMixture(7, 300_000, 50_000)) }

func testBytesPerHit(t *testing.T, m mixture) {
	for _, c := range []struct{ partitions, most int }{{1, 1 << 30}, {16, 1 << 30}, {16, 1000}, {16, 100}} {
		size, hits, items := measure(t, m, c.partitions, c.most)
		perHit, perItem := float64(size)/float64(hits), float64(size)/float64(items)
		t.Logf("%d partitions, batches of at most %d: %.2f bytes a hit, %.2f after those of one millisecond became one", c.partitions, c.most, perHit, perItem)
		if perItem > 12 {
			t.Errorf("%.2f bytes a hit, 12 are promised", perItem)
		}
	}
}

func BenchmarkEncodeRealLog(b *testing.B) {
	m := readSite(b)
	w := NewWriter()
	var record []byte
	var done, items int
	for b.Loop() {
		from := done % (len(m.hits) - 100_000)
		done += m.part(from, len(m.hits)).fill(w)
		items += w.Len()
		record, _ = w.Append(record[:0], benchHeader)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/hit")
	b.ReportMetric(float64(done)/float64(b.N), "hits/batch")
	b.ReportMetric(float64(len(w.pairs)), "pairs")
}
