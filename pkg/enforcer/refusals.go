package enforcer

import (
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// refusals remember when requests were last refused, by entry. It is a hash table of fixed size without chains: of two
// entries that share a slot it remembers the later refusal. It is only for people: the chance to confuse two entries is
// one in four thousand million.
type refusals struct {
	slots [1 << 14]atomic.Uint64 // the hash's upper half, and seconds since 1970
}

func (s *refusals) note(rule, key string, nowMilli int64) {
	h := entryHash(rule, key)
	slot := &s.slots[h%uint64(len(s.slots))]
	if value := h>>32<<32 | uint64(uint32(nowMilli/1000)); slot.Load() != value {
		slot.Store(value)
	}
}

// last returns when a request was last refused because of the entry (Unix ms, whole seconds); 0 when that is unknown.
func (s *refusals) last(rule, key string) int64 {
	h := entryHash(rule, key)
	value := s.slots[h%uint64(len(s.slots))].Load()
	if value>>32 != h>>32 {
		return 0
	}
	return int64(uint32(value)) * 1000
}

func entryHash(rule, key string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(rule)
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(key)
	return d.Sum64()
}
