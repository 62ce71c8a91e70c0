package windows

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
)

// Addresses are spread over partitions, and each sees the requests of its own ones only. A provider with five in a hundred
// of all requests exceeds one in a hundred by the mean of what partitions know, and one with a fifth of one in a hundred
// does not, though some partition may think so.
func TestSharesOfPartitionsEstimateThatOfAll(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, partitions := range []uint64{1, 4, 16} {
		for range 10 {
			all := make([]*Traffic, partitions)
			for i := range all {
				all[i] = NewTraffic(1)
			}
			of := func(address string) *Traffic {
				h := fnv.New64a()
				h.Write([]byte(address))
				return all[h.Sum64()%partitions]
			}
			at := int64(1_700_000_000_000)
			send := func(network string, addresses, requests int) {
				for range requests {
					one := of(fmt.Sprint(network, "/", r.IntN(addresses))).Of("providers")
					one.Add(one.Network([]byte(network)), at-r.Int64N(3_600_000), 1)
				}
			}
			send("large", 2000, 5000)
			send("small", 150, 200)
			for n := range 948 {
				send(fmt.Sprint("other", n), 50, 100)
			}
			to := NewTraffic(1)
			for _, network := range []string{"large", "small"} {
				for n := range 21 { // the blocks of its addresses are judged anywhere
					share, known := of(fmt.Sprint("member", n)).Share("providers", []byte(network), at, int(partitions))
					if !known {
						t.Fatalf("%d partitions: 100,000 requests are too few", partitions)
					}
					to.Sent("providers", []byte(network), at, share)
				}
			}
			if !to.Exceeds("providers", "large", 1, at, 600_000) || to.Exceeds("providers", "small", 1, at, 600_000) {
				t.Errorf("%d partitions: %v", partitions, to.shares)
			}
			if to.Exceeds("others", "large", 1, at, 600_000) || to.Exceeds("providers", "large", 1, at+600_000, 600_000) {
				t.Error("shares of another rule, or of long ago, count")
			}
		}
	}
}

// After a crash shares are sent again, and count once. No share is of a time before 1970.
func TestAShareThatIsSentAgainCountsOnce(t *testing.T) {
	s := NewTraffic(1)
	for _, at := range []int64{-1, 5, 6, 5} {
		s.Sent("a", []byte("n"), at, uint64(at*10_000))
	}
	if !s.Exceeds("a", "n", 5.4, 6, 60_000) || s.Exceeds("a", "n", 5.5, 6, 60_000) || len(s.shares) != 2 {
		t.Errorf("%+v", s.shares)
	}
}

// The newest shares are remembered. Bytes that another checkpoint has written count nothing, and others are refused.
func TestTrafficInTheStore(t *testing.T) {
	s := NewTraffic(1)
	if b := s.Append(nil, 1, 2); b != nil {
		t.Errorf("%d bytes for nothing", len(b))
	}
	s.Of("a").Add(s.Of("a").Network([]byte("n")), 1_700_000_000_000, 5)
	for n := range 3 * trafficShares {
		s.Sent("a", []byte("n"), int64(n), 1<<40)
	}
	if len(s.shares) != trafficShares || s.shares[0].at != 2*trafficShares || s.shares[0].share != shareUnit {
		t.Errorf("%d shares from %+v on", len(s.shares), s.shares[0])
	}
	b := s.Append(nil, 1, 2)
	if read, err := ReadTraffic(b, 9, 1, 2); err != nil || !bytes.Equal(read.Append(nil, 1, 2), b) {
		t.Errorf("%v: it does not read what it wrote", err)
	}
	for _, of := range [][2]int64{{1, 3}, {2, 2}} {
		if read, err := ReadTraffic(b, 9, of[0], of[1]); err != nil || len(read.rules)+len(read.shares) > 0 {
			t.Errorf("%v: of the checkpoint %v: %d shares", err, of, len(read.shares))
		}
	}
	for i := range b {
		damaged := bytes.Clone(b)
		damaged[i] ^= 1
		if _, err := ReadTraffic(damaged, 9, 1, 2); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	s.Keep(func(string) bool { return false })
	if len(s.rules)+len(s.shares) > 0 {
		t.Error("what is of a rule that is gone is kept")
	}
}

// Any bytes are read or refused, and what is read comes back.
func FuzzTraffic(f *testing.F) {
	s := NewTraffic(1)
	s.Of("a").Add(7, 1_700_000_000_000, 5)
	s.Sent("a", []byte("n"), 5, 6)
	b := s.Append(nil, 1, 2)
	f.Add(b[:len(b)-sealBytes])
	f.Fuzz(func(t *testing.T, data []byte) {
		read, err := ReadTraffic(sealed(data), 9, 1, 2)
		if err != nil {
			return
		}
		written := read.Append(nil, 1, 2)
		if written == nil {
			return
		}
		if again, err := ReadTraffic(written, 9, 1, 2); err != nil || !bytes.Equal(again.Append(nil, 1, 2), written) {
			t.Errorf("%v: another traffic", err)
		}
	})
}
