package hit

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// merged is the slow twin of a Writer: it looks at all hits that were added before.
func merged(said []told) (all []told) {
	for _, s := range said {
		if n := mergesWith(all, s); n >= 0 {
			all[n].cost = saturated(all[n].cost, s.cost)
			continue
		}
		all = append(all, s)
	}
	return all
}

func mergesWith(all []told, s told) int {
	for n := len(all) - 1; n >= 0 && s.cost > 0; n-- {
		if all[n].rule != s.rule || all[n].key != s.key {
			continue
		}
		if all[n].cost == 0 {
			return -1
		}
		if all[n].unixMilli == s.unixMilli {
			return n
		}
	}
	return -1
}

func saturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

var modelRules = []string{"per-ip", "login", "never", ""}

func randomTold(r *rand.Rand, keys int) told {
	s := told{rule: modelRules[r.IntN(2)*r.IntN(4)], unixMilli: 1_700_000_000_000 + int64(r.IntN(20)), cost: 1}
	switch n := strconv.Itoa(r.IntN(keys)); r.IntN(4) {
	case 0:
		s.key = "10.0.0." + n
	case 1:
		s.key = "2001:db8:" + n + "::/64"
	case 2:
		s.key = "user" + n + " /login"
	case 3:
		s.key = n
	}
	switch r.IntN(20) {
	case 0:
		s.unixMilli += int64(r.IntN(4000)) * 1000
	case 1:
		s.unixMilli = int64(r.Uint64())
	case 2:
		s.cost = int64(r.Uint64()>>(1+r.IntN(63))) | 1
	case 3:
		s.cost, s.id = 0, "id"+strconv.Itoa(r.IntN(1000))
	}
	return s
}

func TestAgainstTheTwin(t *testing.T) {
	w := NewWriter()
	var reader Reader
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		var said []told
		for range r.IntN(600) {
			said = append(said, randomTold(r, 1+int(seed)%60))
		}
		checkAgainstTwin(t, w, &reader, said)
	}
}

func checkAgainstTwin(t *testing.T, w *Writer, reader *Reader, said []told) {
	t.Helper()
	record := write(t, w, modelRules, said, header)
	if err := reader.Reset(record); err != nil {
		t.Fatal(err)
	}
	same(t, contents(reader), merged(said))
	seen := map[ruleAndKey]bool{}
	for _, pair := range reader.Pairs() {
		p := ruleAndKey{pair.Rule, string(pair.Key)}
		if seen[p] {
			t.Fatalf("pair %v is there twice", p)
		}
		seen[p] = true
	}
}

// A ruleAndKey is a Pair that can be compared.
type ruleAndKey struct {
	rule int
	key  string
}
