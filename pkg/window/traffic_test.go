package window

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A slow twin of Traffic keeps each request. Estimates are never below its shares, rarely above them by more than is
// documented, and the same for any order; also after the bytes were read again.
func TestTrafficAgainstATwin(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 5 {
		type request struct{ network, at int64 }
		begin := int64(1_480_000) * trafficPartFor
		zipf, all := rand.NewZipf(r, 1.1, 4, 20_000), []request{}
		for range 200_000 {
			all = append(all, request{int64(zipf.Uint64()), begin + r.Int64N(trafficParts*trafficPartFor)})
		}
		a, b := NewTraffic(1), NewTraffic(1)
		add := func(to *Traffic, one request) { to.Add(to.Network(fmt.Append(nil, one.network)), one.at, 1) }
		for _, one := range all {
			add(a, one)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, one := range all {
			add(b, one)
		}
		if !bytes.Equal(a.Append(nil), b.Append(nil)) {
			t.Fatal("the order matters")
		}

		at := begin + r.Int64N(trafficParts*trafficPartFor)
		counts, of, far := map[int64]int64{}, int64(0), 0
		for _, one := range all {
			if one.at/trafficPartFor <= at/trafficPartFor {
				of++
				counts[one.network]++
			}
		}
		read, err := ReadTraffic(a.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		for network, count := range counts {
			share, total := read.Share(read.Network(fmt.Append(nil, network)), at)
			want := float64(count) / float64(of)
			if total != of || share < want {
				t.Fatalf("network %d: %v of %d, want %v of %d", network, share, total, want, of)
			}
			if share > want+0.0025 {
				far++
			}
		}
		if far > len(counts)/600 {
			t.Errorf("%d of %d networks are too large", far, len(counts))
		}
	}
}

// Requests older than the four newest parts do not count, and those after an instant are no part of its hour. A collector
// that is hours behind has the hour that is kept.
func TestTrafficForgets(t *testing.T) {
	s := NewTraffic(1)
	n, at := s.Network([]byte("a")), int64(100*trafficPartFor)
	s.Add(n, at, 1)
	s.Add(0, at, 3)
	s.Add(n, at+4*trafficPartFor, 5)
	s.Add(n, at, 1)
	for _, c := range []struct {
		at    int64
		share float64
		of    int64
	}{{at - 9*trafficPartFor, 1, 5}, {at, 1, 5}, {at + trafficPartFor, 0, 0}, {at + 4*trafficPartFor, 1, 5}, {at + 7*trafficPartFor, 1, 5}, {at + 8*trafficPartFor, 0, 0}} {
		if share, of := s.Share(n, c.at); share != c.share || of != c.of {
			t.Errorf("at %d: %v of %d, want %v of %d", c.at-at, share, of, c.share, c.of)
		}
	}
}

// Requests before 1970, as of a damaged clock, count nothing.
func TestTrafficBefore1970(t *testing.T) {
	s := NewTraffic(1)
	for _, at := range []int64{-1, -trafficPartFor, -3*trafficPartFor - 1, math.MinInt64} {
		s.Add(1, at, 1)
		if share, of := s.Share(1, at); share != 0 || of != 0 {
			t.Errorf("at %d: %v of %d", at, share, of)
		}
	}
	if !bytes.Equal(s.Append(nil), NewTraffic(1).Append(nil)) {
		t.Error("they count")
	}
}

func TestTrafficAllocatesNothing(t *testing.T) {
	s, key := NewTraffic(1), []byte("203.0.113.0/24")
	at := int64(100 * trafficPartFor)
	s.Add(1, at, 1)
	if n := testing.AllocsPerRun(100, func() { s.Add(s.Network(key), at, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Any bytes are read or refused, and what is read comes back.
func FuzzTraffic(f *testing.F) {
	s := NewTraffic(1)
	f.Add(s.Append(nil))
	s.Add(7, 100*trafficPartFor, 3)
	f.Add(s.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := ReadTraffic(data)
		if err != nil {
			return
		}
		if again, err := ReadTraffic(read.Append(nil)); err != nil || !bytes.Equal(again.Append(nil), read.Append(nil)) {
			t.Errorf("%v: another traffic", err)
		}
	})
}
