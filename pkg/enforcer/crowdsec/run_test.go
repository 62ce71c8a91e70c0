package crowdsec

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Run saves once a minute and at the end.
func TestRunSaves(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "bouncers")
	synctest.Test(t, func(t *testing.T) {
		s := &site{list: newList(), folder: folder, now: time.UnixMilli(1_800_000_000_000)}
		s.open()
		s.list.block("per-ip", "ip", "203.0.113.7", s.after(time.Hour))
		s.poll(t, "")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		for _, step := range []func(){func() { time.Sleep(saveEvery + time.Second) }, cancel} {
			os.Remove(path)
			step()
			synctest.Wait()
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A folder that cannot be written is reported, and stops nothing.
func TestSaveReportsItsErrors(t *testing.T) {
	s := newSite(t)
	s.poll(t, "")
	s.Folder = filepath.Join(s.folder, "file", "below")
	if err := os.WriteFile(filepath.Join(s.folder, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(); err == nil {
		t.Error("saved below a file")
	}
}
