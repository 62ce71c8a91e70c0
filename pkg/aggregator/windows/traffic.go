package windows

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"weir/internal/store"
	"weir/internal/varint"
	"weir/pkg/rule"
	"weir/pkg/window"
)

const (
	trafficNoteVersion = 1

	trafficRules  = 1 << 16
	trafficShares = 1024 // that are remembered, the newest

	shareUnit = 1e6 // of a share that is sent
)

// TrafficKey is where the store has a partition's Traffic, in the space Notes.
const TrafficKey = "traffic"

// A Traffic knows which share of the requests each network sent, for the guards of group rules. A partition counts the
// requests of a part of the addresses (window.Traffic), and sends a network's share of these with the blocks of its
// addresses, to the partition that counts the network. That one remembers the newest 1,024 shares, and takes the mean of
// those of a network.
//
// All hits count, also those that a window has already. A checkpoint has the Traffic of its moment, so after a crash it is
// again what it was at each place in the log.
type Traffic struct {
	seed   uint64
	rules  map[string]*window.Traffic
	shares []sentShare // the newest last
}

// A sentShare is of a network, as another partition knows it.
type sentShare struct {
	network uint64
	at      int64 // when the block began that it was sent with
	share   int64 // in millionths
}

// NewTraffic makes a Traffic that has counted nothing.
func NewTraffic(seed uint64) *Traffic {
	return &Traffic{seed: seed, rules: map[string]*window.Traffic{}}
}

// Of is what is known of the networks of a group rule.
func (t *Traffic) Of(rule string) *window.Traffic {
	of := t.rules[rule]
	if of == nil {
		of = window.NewTraffic(t.seed)
		t.rules[rule] = of
	}
	return of
}

// Share is which share of the requests of the hour before an instant a network sent, as a number to send. It reports false
// if these were too few, in all of so many partitions.
func (t *Traffic) Share(name string, key []byte, at int64, partitions int) (share uint64, known bool) {
	of := t.Of(name)
	part, requests := of.Share(of.Network(key), at)
	return uint64(part * shareUnit), requests*int64(max(1, partitions)) >= rule.LeastTraffic
}

// Sent notes a share that came with the block of an address. One that is sent again changes nothing.
func (t *Traffic) Sent(name string, key []byte, at int64, share uint64) {
	sent := sentShare{t.network(name, key), at, int64(min(share, shareUnit))}
	if at < 0 || slices.Contains(t.shares, sent) {
		return
	}
	t.shares = slices.Delete(t.shares, 0, max(0, len(t.shares)+1-trafficShares))
	t.shares = append(t.shares, sent)
}

func (t *Traffic) network(name string, key []byte) uint64 {
	var digest xxhash.Digest
	digest.ResetWithSeed(t.seed)
	digest.WriteString(name)
	digest.Write([]byte{0})
	digest.Write(key)
	return digest.Sum64()
}

// Exceeds reports whether a network sent more than so many percent of the requests, by the mean of the shares that came with
// blocks of its addresses. Those that began per milliseconds before an instant, or longer ago, do not count.
func (t *Traffic) Exceeds(name, key string, percent float64, from, per int64) bool {
	network, sum, count := t.network(name, []byte(key)), int64(0), int64(0)
	for _, s := range t.shares {
		if s.network == network && s.at > from-per {
			sum, count = sum+s.share, count+1
		}
	}
	return count > 0 && float64(sum)/float64(count) > percent/100*shareUnit
}

// The bytes of a Traffic in the store; numbers are varints of encoding/binary without a sign:
//
//	version     1 byte  1
//	generation, offset  of the checkpoint that it is written with
//	rules       how many; for each of them, by name: its length, its bytes, and those of its window.Traffic likewise
//	shares      how many; for each of them 8 bytes, little endian, for the network, its time, its millionths
//	checksum    8 bytes xxhash64 of all before it, little endian

// Append appends the bytes, unless no rule is guarded by traffic.
func (t *Traffic) Append(b []byte, generation, offset int64) []byte {
	if len(t.rules)+len(t.shares) == 0 {
		return b
	}
	begin := len(b)
	b = append(b, trafficNoteVersion)
	for _, n := range []int64{generation, offset, int64(len(t.rules))} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, name := range slices.Sorted(maps.Keys(t.rules)) {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
		of := t.rules[name].Append(nil)
		b = binary.AppendUvarint(b, uint64(len(of)))
		b = append(b, of...)
	}

	b = binary.AppendUvarint(b, uint64(len(t.shares)))
	for _, s := range t.shares {
		b = binary.LittleEndian.AppendUint64(b, s.network)
		b = binary.AppendUvarint(b, uint64(s.at))
		b = binary.AppendUvarint(b, uint64(s.share))
	}
	return seal(b, begin)
}

// ReadTraffic reads what the store has, which may be nothing, or of another checkpoint: then it begins. The seed is for what
// begins. The errors are ErrNewer and ErrDamaged.
func ReadTraffic(value []byte, seed uint64, generation, offset int64) (*Traffic, error) {
	t := NewTraffic(seed)
	if value == nil {
		return t, nil
	}

	read, own := NewTraffic(seed), false
	err := readSealed(value, "the shares of networks", trafficNoteVersion, func(c *varint.Reader) {
		c.Want(trafficNoteVersion)
		own = c.Number() == generation
		own = c.Number() == offset && own
		read.read(c)
	})
	if err != nil || !own {
		return t, err
	}
	return read, nil
}

func (t *Traffic) read(c *varint.Reader) {
	for range c.AtMost(trafficRules) {
		name := string(c.Take(c.AtMost(guardName)))
		of, err := window.ReadTraffic(c.Take(c.Number()))
		if err != nil {
			c.Fail()
			return
		}
		t.rules[name] = of
	}
	for range c.AtMost(trafficShares) {
		var s sentShare
		if b := c.Take(8); b != nil {
			s.network = binary.LittleEndian.Uint64(b)
		}
		s.at, s.share = c.Number(), c.AtMost(shareUnit)
		t.shares = append(t.shares, s)
	}
}

// Keep forgets the rules for which keep is false, and the shares if none is left.
func (t *Traffic) Keep(keep func(rule string) bool) {
	maps.DeleteFunc(t.rules, func(name string, _ *window.Traffic) bool { return !keep(name) })
	if len(t.rules) == 0 {
		t.shares = nil
	}
}

// note is the change that a checkpoint is written with.
func (c *Checkpoint) note() []store.Change {
	if c.Traffic == nil {
		return nil
	}
	return []store.Change{{Space: store.Notes, Key: []byte(TrafficKey), Value: c.Traffic}}
}
