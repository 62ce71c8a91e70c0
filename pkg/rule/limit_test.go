package rule_test

import (
	"strings"
	"testing"
	"time"

	"weir/pkg/rule"
	"weir/pkg/window"
)

func TestLimits(t *testing.T) {
	const day = 24 * time.Hour
	tests := []struct {
		text, canonical string
		hits            int64
		per             time.Duration
	}{
		{"10/min", "10/min", 10, time.Minute},
		{"10/m", "10/m", 10, time.Minute},
		{"10/minute", "10/minute", 10, time.Minute},
		{"100/hour", "100/hour", 100, time.Hour},
		{"1000/day", "1000/day", 1000, day},
		{"5/10s", "5/10s", 5, 10 * time.Second},
		{"3/90m", "3/90m", 3, 90 * time.Minute},
		{" 5 / 10 sec ", "5/10sec", 5, 10 * time.Second},
		{"1/250ms", "1/250ms", 1, 250 * time.Millisecond},
		{"7/2w", "7/2w", 7, 14 * day},
		{"7/week", "7/week", 7, 7 * day},
		{"1/second", "1/second", 1, time.Second},
		{"007/1h", "7/1h", 7, time.Hour},
		{"1000000000000/3650d", "1000000000000/3650d", 1e12, 3650 * day},
	}
	for _, test := range tests {
		got, err := rule.ParseLimit(test.text)
		want := rule.Limit{Limit: window.Limit{Hits: test.hits, Per: test.per}, Text: test.canonical}
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", test.text, got, err)
		}
		if again, err := rule.ParseLimit(got.Text); err != nil || again != got {
			t.Errorf("%q came back as %+v, %v", got.Text, again, err)
		}
	}
}

func TestNoLimits(t *testing.T) {
	for _, text := range []string{"", "/", "10", "10/", "/min", "0/min", "-1/min", "+1/min", "1 0/min", "10//min", "10/min/s", "10/0min", "10/1 0s",
		"10/Min", "10/µs", "10/month", "10/1.5h", "1000000000001/day", "1/3651d", "1/99999999999999999999s", "99999999999999999999/s", "1e3/s", "٣/s"} {
		limit, err := rule.ParseLimit(text)
		if err == nil {
			t.Errorf("%q was read as %+v", text, limit)
			continue
		}
		if !strings.Contains(err.Error(), "; ") {
			t.Errorf("%q: %v has no remedy", text, err)
		}
	}
}

// The canonical text of a limit reads as the same limit and stays the same; it is within the bounds.
func FuzzLimit(f *testing.F) {
	for _, seed := range []string{"10/min", "5/10s", " 3 / 90 m", "0/0", "1/3650d", "007/week", "10/min/s", "\xff/s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := rule.ParseLimit(text)
		if err != nil {
			return
		}
		again, err := rule.ParseLimit(limit.Text)
		if err != nil || again != limit {
			t.Fatalf("%q is %+v, and then %+v, %v", text, limit, again, err)
		}
		if limit.Hits < 1 || limit.Hits > 1e12 || limit.Per < time.Millisecond || limit.Per > 3650*24*time.Hour || limit.Per%time.Millisecond != 0 {
			t.Fatalf("%q is %+v", text, limit)
		}
	})
}
