package backtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A log that becomes shorter while it is read is an error, and not a log that ends there.
func TestALogThatBecomesShorter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(strings.Repeat("a line of it\n", 100_000)), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Input{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	buffer := make([]byte, 4096)
	for n := 0; err == nil; n++ {
		if _, err = s.Read(buffer); n == 10 {
			if err := os.Truncate(path, 300_000); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !errors.Is(err, errShrunk) {
		t.Error(err)
	}
}

// A named pipe without a writer is waited for, until the context is done.
func TestANamedPipeIsNotWaitedForLonger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, Input{Path: path}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0) // this ends the reader that still waits
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}
