package daemon

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/config"
	"weir/internal/store"
	"weir/internal/telemetry"
	"weir/test/locked"
	"weir/test/real"
)

// On a full disk an aggregator waits, reports the reason, and can be ended; when there is room again it goes on.
func TestAFullDiskAtTheStart(t *testing.T) {
	disk, here := real.SmallDisk(t, "2m")
	if !here {
		return
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 3<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	c := &config.Config{Data: filepath.Join(disk, "data")}
	if err := os.MkdirAll(c.StoreFolder(), 0o700); err != nil {
		t.Fatal(err)
	}
	var said locked.Buffer
	logger, err := telemetry.Log(&said, "info", "text")
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{Config: c, Logger: logger, Health: telemetry.NewHealth()}
	ended, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	if _, err := p.openStore(ended); err == nil {
		t.Fatal("opened on a full disk")
	}
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "no space left") {
		t.Errorf("it logs %s", text)
	}
	if why := unready(p.Health); !strings.Contains(why, "no space left") {
		t.Errorf("it is not ready because %s", why)
	}
	opened := make(chan store.Store, 1)
	go func() {
		cold, err := p.openStore(t.Context())
		if err != nil {
			t.Error(err)
		}
		opened <- cold
	}()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := (<-opened).Close(); err != nil {
		t.Error(err)
	}
}

// unready returns the answer of /readyz.
func unready(h *telemetry.Health) string {
	mux := http.NewServeMux()
	h.Handle(mux)
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
	return answer.Body.String()
}
