package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/sleep"
)

func TestItEndsWithTheTimeOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		sleep.For(t.Context(), time.Hour)
		if slept := time.Since(began); slept != time.Hour {
			t.Errorf("it slept for %v", slept)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		sleep.For(ctx, time.Hour)
		if slept := time.Since(began); slept != time.Minute {
			t.Errorf("it slept for %v, and its context ended", slept)
		}
	})
}
