package redis

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"weir/internal/store"
)

// A space's keys are spread over a fixed number of buckets, a power of two. The numbers are part of the layout.
type space struct {
	short, long string
	buckets     uint64
}

var spaces = map[store.Space]space{
	store.Windows: {"w", "W", 8192},
	store.Index:   {"i", "I", 64},
	store.Notes:   {"n", "N", 1},
}

// longestShort is Redis's own hash-max-listpack-value: longer values are not packed.
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

// A naming makes the names of a call: the fence's, then those of buckets. They share their bytes.
type naming struct {
	names
	text strings.Builder
	ends []int // of the names in text
}

// naming begins one, with room for that many buckets.
func (n names) naming(buckets int) *naming {
	b := &naming{names: n, ends: make([]int, 0, 1+2*buckets)}
	b.text.Grow((1 + 2*buckets) * (len(n.stem) + 1 + 4)) // the space, and its number's digits
	b.text.WriteString(n.fence())
	b.ends = append(b.ends, b.text.Len())
	return b
}

// bucket adds the names of a key's bucket, short and long.
func (b *naming) bucket(sp space, key []byte) {
	// The lower bits: the upper ones may have chosen the partition.
	b.numbered(sp, xxhash.Sum64(key)&(sp.buckets-1))
}

func (b *naming) numbered(sp space, bucket uint64) {
	var digits [16]byte
	number := strconv.AppendUint(digits[:0], bucket, 36)
	for _, kind := range [...]string{sp.short, sp.long} {
		b.text.WriteString(b.stem)
		b.text.WriteString(kind)
		b.text.Write(number)
		b.ends = append(b.ends, b.text.Len())
	}
}

func (b *naming) all() []string {
	text, begin := b.text.String(), 0
	all := make([]string, len(b.ends))
	for i, end := range b.ends {
		all[i], begin = text[begin:end], end
	}
	return all
}
