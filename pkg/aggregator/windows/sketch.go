package windows

import (
	"github.com/cespare/xxhash/v2"

	"weir/internal/hyperloglog"
	"weir/internal/varint"
)

const (
	sketchRegisters = 1 << 10

	// sketchRoom makes an estimate an upper bound: it is three times the standard error, 1.04/sqrt(registers) = 3.25 %.
	// So 998 of 1,000 estimates with it are not below the number of keys, and as many are not more than a fifth above.
	sketchRoom = 1.1
)

// A sketch counts different keys.
type sketch [sketchRegisters]uint8

// add adds a key. Without the seed no client knows which keys it would have to send for a large estimate.
func (s *sketch) add(key string, seed uint64) {
	var digest xxhash.Digest
	digest.ResetWithSeed(seed)
	digest.WriteString(key)
	s.registers().Add(digest.Sum64())
}

func (s *sketch) registers() hyperloglog.Registers { return s[:] }

// keys estimates how many different keys were added.
func (s *sketch) keys() float64 { return s.registers().Estimate() }

func (s *sketch) append(b []byte) []byte { return s.registers().Append(b) }

func (s *sketch) read(c *varint.Reader) {
	rest, ok := s.registers().Read(c.Left)
	if c.Left = rest; !ok {
		c.Fail()
	}
}
