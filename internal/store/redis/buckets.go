package redis

import (
	"strconv"

	"github.com/cespare/xxhash/v2"

	"weir/internal/store"
)

// A space's keys are spread over so many buckets, a power of two. The numbers are part of the layout.
type space struct {
	short, long string
	buckets     uint64
}

var spaces = map[store.Space]space{
	store.Windows: {"w", "W", 8192},
	store.Index:   {"i", "I", 64},
	store.Notes:   {"n", "N", 1},
}

// longestShort is Redis's own hash-max-listpack-value: longer ones are not packed.
const longestShort = 64

func isLong(key, value []byte) bool { return len(key) > longestShort || len(value) > longestShort }

// names makes the names of a partition's keys.
type names struct {
	stem string // prefix and hash tag
}

func (s *Store) names(partition int) names {
	return names{s.prefix + "{" + strconv.Itoa(partition) + "}"}
}

func (n names) fence() string { return n.stem + "f" }

// bucket returns the names of a key's bucket, short and long.
func (n names) bucket(sp space, key []byte) (short, long string) {
	// The lower bits: partitions may have been told apart by the upper ones.
	return n.numbered(sp, xxhash.Sum64(key)&(sp.buckets-1))
}

func (n names) numbered(sp space, bucket uint64) (short, long string) {
	digits := strconv.FormatUint(bucket, 36)
	return n.stem + sp.short + digits, n.stem + sp.long + digits
}
