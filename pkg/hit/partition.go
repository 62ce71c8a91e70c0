package hit

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Partition returns which of so many partitions counts the (rule, key): the upper half of the 128-bit product
// of partitions and h, where h is the xxhash64 of the rule's name, a zero byte and the key. It is the same in
// every release; there must be at least one partition.
func Partition(rule string, key []byte, partitions int) int {
	high, _ := bits.Mul64(pairHash(rule, key), uint64(partitions))
	return int(high)
}

func pairHash(rule string, key []byte) uint64 {
	var short [96]byte
	if n := len(rule) + 1 + len(key); n <= len(short) {
		copy(short[:], rule)
		copy(short[len(rule)+1:], key)
		return xxhash.Sum64(short[:n])
	}
	var d xxhash.Digest
	d.Reset()
	d.WriteString(rule)
	d.Write([]byte{0})
	d.Write(key)
	return d.Sum64()
}
