package backtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/pkg/window"
)

// The peak is the greatest sum over (t-W, t] at any hit t from the break on, hits before the break included.
func TestPeakIsTheGreatestSumOfAnyWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		per := 1 + random.Int64N(1000)
		policy, err := window.New(window.Config{
			Limits: []window.Limit{{Hits: 4000, Per: time.Duration(per) * time.Millisecond}},
			Block:  window.Block{For: time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		var state window.State
		var all []instant
		at := int64(1_000_000)
		step := func() instant {
			at += random.Int64N(per/3 + 2)
			i := instant{at, 1 + random.Int64N(3)}
			all = append(all, i)
			return i
		}
		for range random.IntN(30) {
			i := step()
			policy.Hit(&state, i.at, i.hits)
		}
		p := peak{per: per, before: &state, policy: policy, beforeLeaves: at + per}
		var wanted int64
		for range 1 + random.IntN(100) {
			i := step()
			sum := sumWithin(all, i.at-per, i.at)
			if got := p.hit(i.at, i.hits); got != sum {
				t.Fatalf("the window holds %d, want %d", got, sum)
			}
			wanted = max(wanted, sum)
		}
		if p.most != wanted {
			t.Fatalf("peak %d, want %d", p.most, wanted)
		}
	}
}

func sumWithin(all []instant, after, until int64) (sum int64) {
	for _, i := range all {
		if after < i.at && i.at <= until {
			sum += i.hits
		}
	}
	return sum
}

func TestPeakIsBoundedAndThenErrsDownwards(t *testing.T) {
	p := peak{per: 1 << 40}
	for at := range int64(10 * maxInstants) {
		if got := p.hit(at, 1); got > at+1 {
			t.Fatalf("%d of %d hits", got, at+1)
		}
	}
	if len(p.instants) > maxInstants || p.most < 9*maxInstants {
		t.Fatalf("%d instants, peak %d", len(p.instants), p.most)
	}
}
