package collector

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"weir/internal/kafka/kafkatest"
	"weir/test/wait"
)

func TestMain(m *testing.M) {
	wait.Together(4)
	goleak.VerifyTestMain(withKafka{m})
}

// withKafka stops the real Kafka that tests share, after them.
type withKafka struct{ *testing.M }

func (m withKafka) Run() int { return kafkatest.Run(m.M) }

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
