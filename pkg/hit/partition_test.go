package hit

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// These never change: another partition is another owner, who does not know what was counted.
func TestPartitionsNeverChange(t *testing.T) {
	for _, c := range []struct {
		rule, key  string
		partitions int
		want       int
	}{
		{"per-ip", "203.0.113.7", 16, 7},
		{"per-ip", "203.0.113.7", 1, 0},
		{"per-ip", "203.0.113.7", 1000, 455},
		{"per-ip", "2001:db8:1::/64", 16, 0},
		{"login", "alice /login", 16, 11},
		{"login", "", 16, 0},
		{"", "", 64, 58},
		{"a", "b\x00c", 64, 40},
		{"exports-per-user-and-host", "a-user-with-a-rather-long-name@example.com www.shop.example.com /exports/of/everything", 256, 194},
	} {
		if got := Partition(c.rule, []byte(c.key), c.partitions); got != c.want {
			t.Errorf("{%q, %q, %d, %d},", c.rule, c.key, c.partitions, got)
		}
	}
}

func TestPartitionIsTheHashOfRuleZeroAndKey(t *testing.T) {
	for n := range 300 {
		rule, key := strings.Repeat("r", n/3), []byte(strings.Repeat("k", n))
		want, _ := bits.Mul64(xxhash.Sum64String(rule+"\x00"+string(key)), 16)
		if got := Partition(rule, key, 16); got != int(want) {
			t.Fatalf("a rule of %d bytes, a key of %d: %d, want %d", n/3, n, got, want)
		}
	}
}

func TestPartitionsAreEven(t *testing.T) {
	const keys = 100_000
	for _, partitions := range []int{1, 3, 16, 100} {
		count := make([]int, partitions)
		for n := range keys {
			count[Partition("per-ip", fmt.Appendf(nil, "10.%d.%d.%d", n>>16, n>>8&255, n&255), partitions)]++
		}
		for p, n := range count {
			if mean := keys / partitions; n < mean*8/10 || n > mean*12/10 {
				t.Errorf("%d of %d keys in partition %d of %d", n, keys, p, partitions)
			}
		}
	}
}
