package hit

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
)

// A mixture of hits like those of a site: a few addresses with many requests, many with few, in the order of
// their times; one in sixteen has an IPv6 address; one in eight is also counted per user and path.
type mixture struct {
	rules []string
	hits  []sample
	keys  []byte
}

// add adds a hit with a key of its own, one behind the other: reading them is not what is to be measured.
func (m *mixture) add(rule int, key []byte, unixMilli, cost int64) {
	start := len(m.keys)
	m.keys = append(m.keys, key...)
	m.hits = append(m.hits, sample{rule, m.keys[start:len(m.keys):len(m.keys)], unixMilli, cost})
}

type sample struct {
	rule            int
	key             []byte
	unixMilli, cost int64
}

func newMixture(seed uint64, hits, keys int) mixture {
	r := rand.New(rand.NewPCG(seed, 1))
	m := mixture{rules: []string{"per-ip", "login-per-user", "exports"}, keys: make([]byte, 0, 32*hits)}
	clients := rand.NewZipf(r, 1.1, 8, uint64(keys-1))
	now := int64(1_700_000_000_000)
	for len(m.hits) < hits {
		now += int64(r.ExpFloat64() * 20)
		client := uint32(clients.Uint64()) * 2_654_435_761
		ip := netip.AddrFrom4([4]byte{byte(client >> 24), byte(client >> 16), byte(client >> 8), byte(client)})
		if client%16 == 1 {
			m.add(0, fmt.Appendf(nil, "2001:db8:%x:%x::/64", client>>16, client&0xffff), now, 1)
			continue
		}
		m.add(0, ip.AppendTo(nil), now, 1)
		if client%8 == 0 {
			m.add(1, []byte("user"+strconv.Itoa(int(client>>12))+" /login"), now, 1)
		}
		if client%64 == 0 {
			m.add(2, ip.AppendTo(nil), now, int64(1+r.IntN(100)))
		}
	}
	return m
}

var benchHeader = Header{
	Source: "access.log/5f0c9be24c1d4a55b0c6a3c1f1d2e3f4", From: 1 << 20, To: 1<<20 + 1<<18,
	Clock: 1_700_000_000_500, Fingerprint: "9f86d081884c7d65",
}

// fill adds hits until the batch is full, and returns how many went in.
func (m mixture) fill(w *Writer) int {
	w.Reset(m.rules)
	for n := range m.hits {
		h := &m.hits[n]
		if !w.Add(h.rule, h.key, h.unixMilli, h.cost) {
			return n
		}
	}
	return len(m.hits)
}

func (m mixture) part(from, to int) mixture {
	return mixture{rules: m.rules, hits: m.hits[from:to]}
}

func BenchmarkEncode(b *testing.B) {
	m := newMixture(1, 60_000, 20_000)
	for _, size := range []int{1, 100, 10_000, 60_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			w := NewWriter()
			var record []byte
			var done, bytes, batches int
			b.ReportAllocs()
			for b.Loop() {
				from := done % (len(m.hits) - size + 1)
				done += m.part(from, from+size).fill(w)
				record, _ = w.Append(record[:0], benchHeader)
				bytes += len(record)
				batches++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/hit")
			b.ReportMetric(float64(bytes)/float64(done), "bytes/hit")
			b.ReportMetric(float64(done)/float64(batches), "hits/batch")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	m := newMixture(1, 60_000, 20_000)
	for _, size := range []int{1, 100, 10_000, 60_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			w := NewWriter()
			hits := m.part(0, size).fill(w)
			record, _ := w.Append(nil, benchHeader)
			var r Reader
			var sum int64
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Reset(record); err != nil {
					b.Fatal(err)
				}
				for _, item := range r.Items() {
					sum += item.Cost + int64(len(r.Pairs()[item.Pair].Key))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*hits), "ns/hit")
		})
	}
}

func BenchmarkPartition(b *testing.B) {
	key := []byte("203.0.113.107")
	sum := 0
	for b.Loop() {
		sum += Partition("per-ip", key, 16)
	}
}
