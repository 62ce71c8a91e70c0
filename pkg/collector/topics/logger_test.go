package topics

import (
	"log/slog"

	"weir/test/locked"
)

// said keeps the lines that a logger received.
type said struct{ locked.Buffer }

func (s *said) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
