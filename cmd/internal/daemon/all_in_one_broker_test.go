package daemon

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"weir/cmd/internal/config"
	"weir/internal/kafka/embedded"
)

// Weir waits for a command of the tool that uses the broker's folder, but not for a process that runs on it.
func TestAProcessWaitsForACommandThatHasTheBrokersFolder(t *testing.T) {
	p := &Process{Config: &config.Config{Data: t.TempDir()}, Logger: slog.New(slog.DiscardHandler)}
	command, err := embedded.Open(embedded.Config{Folder: p.Config.BrokerFolder(), RetainEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	one := &allInOne{}
	go func() {
		_, err := one.openBroker(t.Context(), p)
		opened <- err
	}()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := (&allInOne{}).openBroker(ended, p); !errors.Is(err, context.Canceled) {
		t.Errorf("a signal while it waits: %v", err)
	}
	command.Close()
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	defer one.broker.Close()
	if _, err := (&allInOne{}).openBroker(t.Context(), p); !errors.Is(err, embedded.ErrInUse) {
		t.Errorf("on the folder of another process: %v", err)
	}
}
