package rule

import (
	"testing"
	"time"

	"weir/pkg/window"
)

func policyOf(t *testing.T, text string) *window.Policy {
	t.Helper()
	set, _, err := Parse("rules.yaml", []byte("rules: ["+text+"]"))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := set.Rules[0].Policy(10*time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

const noon = 1_700_000_000_000

// A limit above 4,096 is broken by the hit after it if enough hits are remembered; otherwise it may be broken later.
func TestLimitsAboveTheBoundAreExactWhereThatIsWanted(t *testing.T) {
	for _, test := range []struct {
		hits  int64
		text  string
		exact bool
	}{
		{5000, "{name: a, key: ip, limits: [5000/min]}", false},
		{5000, "{name: a, key: ip, limits: [5000/min], remember: exact}", true},
		{5000, "{name: a, key: ip, limits: [5000/min], remember: 5000}", true},
		{50_000, "{name: a, key: ip, limits: [50000/min], remember: exact}", true},
	} {
		policy := policyOf(t, test.text)
		var s window.State
		broke := int64(0)
		for i := int64(1); i <= test.hits+1 && broke == 0; i++ { // over nearly all of the window
			if o := policy.Hit(&s, noon+i*59_990/test.hits, 1); o.Event == window.Broke {
				broke = i
			}
		}
		if (broke == test.hits+1) != test.exact {
			t.Errorf("%s: broken by hit %d", test.text, broke)
		}
	}
}

// A client that never stops gets no more than the limit, and the request that broke it, in any day if blocks last until
// the window is clear; with blocks of ten minutes it gets more.
func TestBlocksUntilTheWindowIsClear(t *testing.T) {
	const day, step = 24 * 3600_000, 5_000
	for text, more := range map[string]bool{
		"{name: a, key: ip, limits: [1000/day], block: {until: clear}}":                       false,
		"{name: a, key: ip, limits: [300/min, 1000/day], block: {for: 10m, until: clear}}":    false,
		"{name: a, key: ip, limits: [1000/day], block: {for: 10m}}":                           true,
		"{name: a, key: ip, limits: [1000/day], block: {for: 10m, then: [1h], until: clear}}": false,
	} {
		policy := policyOf(t, text)
		var s window.State
		var passed []int64
		most, blocks := 0, 0
		for at := int64(noon); at < noon+3*day; at += step {
			switch o := policy.Hit(&s, at, 1); o.Event {
			case window.Counted, window.Broke:
				passed = append(passed, at)
				if o.Event == window.Broke {
					blocks++
				}
			}
			for passed[0] <= at-day {
				passed = passed[1:]
			}
			most = max(most, len(passed))
		}
		if (most > 1001) != more || blocks < 2 {
			t.Errorf("%s: %d pass in a day, %d blocks", text, most, blocks)
		}
	}
}
