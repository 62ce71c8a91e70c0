package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/internal/database"
	"weir/internal/telemetry"
)

// Weir waits for a command of the tool that uses the folder, but not for a process that runs on it.
func TestAProcessWaitsForACommandThatHasTheFolder(t *testing.T) {
	data, err := os.MkdirTemp("", "weir") // a socket's path may have about a hundred bytes
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	p := &Process{Config: &config.Config{Data: data}, Logger: slog.New(slog.DiscardHandler), Health: telemetry.NewHealth()}
	command, err := OpenLocal(t.Context(), p.Config, p.Logger)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		local *Local
		err   error
	}
	opened := make(chan result, 1)
	go func() {
		l, err := p.openLocal(t.Context())
		opened <- result{l, err}
	}()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := p.openLocal(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a signal while it waits: %v", err)
	}
	command.Close()
	r := <-opened
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer r.local.Close()
	if _, err := p.openLocal(t.Context()); !errors.Is(err, database.ErrInUse) || !strings.Contains(err.Error(), "end that process") {
		t.Errorf("on the folder of another process: %v", err)
	}
}

// The data of the broker that versions before had are refused, with what to do.
func TestTheFolderOfAVersionBefore(t *testing.T) {
	c := &config.Config{Data: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(c.BrokerFolder(), "partitions"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLocal(t.Context(), c, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "move the folder away") {
		t.Errorf("%v", err)
	}
	if err := os.Rename(c.BrokerFolder(), c.BrokerFolder()+".before"); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLocal(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// A folder that cannot be looked into is not taken for the data of the broker that versions before had.
func TestAFolderThatCannotBeLookedInto(t *testing.T) {
	c := &config.Config{Data: t.TempDir()}
	if err := os.WriteFile(c.BrokerFolder(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLocal(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
