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

// A command of the tool that has the broker's folder is waited for; a process that runs on it is not.
func TestAProcessWaitsForACommandThatHasTheBrokersFolder(t *testing.T) {
	p := &Process{Config: &config.Config{Data: t.TempDir()}, Logger: slog.New(slog.DiscardHandler)}
	command, err := embedded.Open(embedded.Config{Folder: p.Config.BrokerFolder(), RetainEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	one := &whole{}
	go func() {
		_, err := one.openBroker(t.Context(), p)
		opened <- err
	}()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := (&whole{}).openBroker(ended, p); !errors.Is(err, context.Canceled) {
		t.Errorf("a signal while it waits: %v", err)
	}
	command.Close()
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	defer one.broker.Close()
	if _, err := (&whole{}).openBroker(t.Context(), p); !errors.Is(err, embedded.ErrInUse) {
		t.Errorf("on the folder of another process: %v", err)
	}
}
