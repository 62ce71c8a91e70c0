package rule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir/pkg/window"
)

// A limit that is reported to have no effect has none: without it the same hits break the rule.
func TestUnreachableLimitsHaveNoEffect(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	told := 0
	for range 3000 {
		algorithm := []window.Algorithm{window.Sliding, window.Fixed, window.Token}[random.IntN(3)]
		var limits []Limit
		for range 2 + random.IntN(2) {
			hits, seconds := 1+random.Int64N(12), 1+random.Int64N(20)
			limits = append(limits, Limit{Limit: window.Limit{Hits: hits, Per: time.Duration(seconds) * time.Second}, Text: fmt.Sprintf("%d/%ds", hits, seconds)})
		}
		at := random.IntN(len(limits))
		why := unreachable(algorithm, limits, at)
		if why == "" {
			continue
		}
		told++
		without := append(append([]Limit(nil), limits[:at]...), limits[at+1:]...)
		if with, alone := breaks(t, algorithm, limits, told), breaks(t, algorithm, without, told); with != alone {
			t.Fatalf("%v: %s\nbroken at %s\nwithout it at %s", limits, why, with, alone)
		}
	}
	if told < 300 {
		t.Errorf("only %d limits were told", told)
	}
}

// breaks are the times at which random hits break limits.
func breaks(t *testing.T, algorithm window.Algorithm, limits []Limit, seed int) string {
	t.Helper()
	rule := Rule{Algorithm: algorithm, Limits: limits, Block: Block{For: 3 * time.Second}}
	policy, err := rule.Policy(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(seed), 7))
	var state window.State
	var instants []int64
	at := int64(1_700_000_000_000)
	for range 300 {
		at += random.Int64N(1 + []int64{50, 900, 4000}[random.IntN(3)])
		if policy.Hit(&state, at, 1+random.Int64N(3)/2).Event == window.Broke {
			instants = append(instants, at)
		}
	}
	return fmt.Sprint(instants)
}

func TestOrdinaryLimitsAreNotWarnedOf(t *testing.T) {
	var limits []Limit
	for _, text := range []string{"10/min", "100/hour", "1000/day"} {
		limit, err := ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, limit)
	}
	for i := range limits {
		if why := unreachable(window.Sliding, limits, i); why != "" {
			t.Error(why)
		}
	}
}
