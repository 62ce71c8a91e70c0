package daemon

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir/cmd/internal/config"
	"weir/pkg/inline"
	"weir/test/locked"
	"weir/test/wait"
)

// A collector that runs apart reports ends to the enforcers that are named, with the key, and to the one of its process.
// Without any it logs that a rule needs one.
func TestWhereACollectorReportsEnds(t *testing.T) {
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- r.Header.Get("X-Api-Key") + " " + string(body)
	}))
	defer server.Close()
	folder := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const rules = "rules: [{name: exports, key: ip, limits: [2 at once], lease: 1m, ends: log, inline: true}]\n"
	open := func(text string, own endAttempts) (*Process, *locked.Buffer) {
		t.Helper()
		settings, _, err := config.Load(config.Options{File: write("weir.yaml", "data: data\n"+rules+text)})
		if err != nil {
			t.Fatal(err)
		}
		said := &locked.Buffer{}
		p := &Process{Config: settings, Logger: slog.New(slog.NewTextHandler(said, nil)), Metrics: prometheus.NewRegistry(), part: "collector"}
		p.others = []*Process{{part: Enforcer.Name, end: own}, p}
		return p, said
	}

	p, said := open("", nil)
	if s, err := p.openEnds(); s != nil || err != nil || !strings.Contains(said.String(), "a rule has ends: log") {
		t.Errorf("%v, %v, %s", s, err, said)
	}

	write("key", "the key\n")
	id := inline.NewID(1)
	own := make(chan inline.ID, 1)
	p, _ = open("collector: {settle: {enforcers: ["+server.URL+"], key_file: key}}\n", func(_ context.Context, ids []inline.ID) (int, error) {
		own <- ids[0]
		return 1, nil
	})
	s, err := p.openEnds()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	s.Put([]inline.ID{id})
	wait.Until(t, "both have it", func() bool { return len(asked) == 1 && len(own) == 1 })
	cancel()
	<-ended
	if got := <-asked; got != `the key {"ended":["`+id.String()+`"]}` || <-own != id {
		t.Error(got)
	}
}
