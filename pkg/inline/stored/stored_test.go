package stored_test

import (
	"testing"

	"go.uber.org/goleak"

	"weir/pkg/inline"
	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/stored"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAStoreInMemory(t *testing.T) {
	inlinetest.Run(t, func(*testing.T) *inlinetest.Place {
		return &inlinetest.Place{Alone: true, Open: func(o inlinetest.Options) inline.Store { return inline.New(inline.Config{Settle: o.Settle}) }}
	})
}

func TestAStoreOverABackend(t *testing.T) {
	inlinetest.RunBackend(t, func(*testing.T) *inlinetest.BackendPlace {
		b := inlinetest.NewMemory(nil)
		return &inlinetest.BackendPlace{Open: func(testing.TB) stored.Backend { return b }}
	})
}
