package duration_test

import (
	"testing"

	"weir/internal/duration"
)

// A duration that was read, written and read again stays the same.
func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"1h30m", "forever", "9223372036854ms", "0", "1w1w"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		span, err := duration.Parse(text)
		if err != nil {
			return
		}
		if again, err := duration.Parse(duration.Format(span)); err != nil || again != span || span < 0 {
			t.Fatalf("%q: %v, then %v, %v", text, span, again, err)
		}
	})
}
