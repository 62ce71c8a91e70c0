package yamlfile_test

import (
	"testing"
	"time"

	"weir/internal/yamlfile"
)

func TestDurations(t *testing.T) {
	const day = 24 * time.Hour
	good := map[string]time.Duration{
		"0": 0, "1ms": time.Millisecond, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1d": day, "2w": 14 * day,
		"1d12h": 36 * time.Hour, "0s": 0, "forever": yamlfile.Forever, "1m1ms": time.Minute + time.Millisecond,
	}
	for text, want := range good {
		got, err := yamlfile.ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
		if again, err := yamlfile.ParseDuration(yamlfile.FormatDuration(got)); err != nil || again != got {
			t.Errorf("%q came back as %v, %v", text, again, err)
		}
	}
	if got, err := yamlfile.ParseDuration(" 10m "); err != nil || got != 10*time.Minute {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "10", "m", "-1s", "+1s", "1.5h", "1µs", "1y", "10min", "1e3s", "99999999999999999999s", "20000w", "9000w9000w", "1h forever", "Forever"} {
		if got, err := yamlfile.ParseDuration(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestSizes(t *testing.T) {
	good := map[string]yamlfile.Size{"0": 0, "4096": 4096, "512MiB": 512 << 20, "10KB": 10_000, "1 gib": 1 << 30, "1_000B": 1000}
	for text, want := range good {
		got, err := yamlfile.ParseSize(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if again, err := yamlfile.ParseSize(got.String()); err != nil || again != got {
			t.Errorf("%q came back as %v, %v", text, again, err)
		}
	}
	for _, text := range []string{"", "-1", "K", "1K", "1.5MiB", "9999999TiB", "99999999999999999999", "1MiBs"} {
		if got, err := yamlfile.ParseSize(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}
