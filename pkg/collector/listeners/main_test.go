package listeners

import (
	"testing"

	"go.uber.org/goleak"

	"weir/test/wait"
)

func TestMain(m *testing.M) {
	wait.Together(8)
	goleak.VerifyTestMain(m)
}
