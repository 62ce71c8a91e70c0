package duration_test

import (
	"testing"
	"time"

	"weir/internal/duration"
)

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	good := map[string]time.Duration{
		"0": 0, "1ms": time.Millisecond, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1d": day, "2w": 14 * day,
		"1d12h": 36 * time.Hour, "0s": 0, "forever": duration.Forever, "1m1ms": time.Minute + time.Millisecond,
	}
	for text, want := range good {
		got, err := duration.Parse(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
		if again, err := duration.Parse(duration.Format(got)); err != nil || again != got {
			t.Errorf("%q came back as %v, %v", text, again, err)
		}
	}
	if got, err := duration.Parse(" 10m "); err != nil || got != 10*time.Minute {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "10", "m", "-1s", "+1s", "1.5h", "1µs", "1y", "10min", "1e3s", "99999999999999999999s", "20000w", "9000w9000w", "1h forever", "Forever"} {
		if got, err := duration.Parse(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}
