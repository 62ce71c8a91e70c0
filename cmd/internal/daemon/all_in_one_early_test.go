package daemon

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/test/locked"
	"weir/test/port"
	"weir/test/real"
)

// While the store waits for room on its disk, edges get answers, every admin address answers, and a signal ends the process.
func TestEdgesAreAnsweredWhileTheDiskIsFull(t *testing.T) {
	disk, here := real.SmallDisk(t, "1m")
	if !here {
		return
	}
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	e := &edge{t: t, folder: t.TempDir(), listen: port.Reserve(t, "127.0.0.1"), admin: port.Reserve(t, "127.0.0.1"), client: &http.Client{Transport: &http.Transport{}}}
	e.write("rules.yaml", oneRule)
	collector, aggregator := port.Reserve(t, "127.0.0.1"), port.Reserve(t, "127.0.0.1")
	e.write("weir.yaml", fmt.Sprintf("data: data\nclient: {trusted_proxies: [127.0.0.0/8]}\ncollector: {listen: %s}\naggregator: {listen: %s}\nenforcer: {listen: %s, admin: %s}\n", collector, aggregator, e.listen, e.admin))
	for _, err := range []error{os.Mkdir(filepath.Join(e.folder, "data"), 0o700), os.Mkdir(filepath.Join(disk, "store"), 0o700),
		os.Symlink(filepath.Join(disk, "store"), filepath.Join(e.folder, "data", "store"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said locked.Buffer
	code := make(chan int, 1)
	part := AllInOne(func(context.Context, *Process, func() map[string]any) {}, Collector, Aggregator, Enforcer)
	go func() { code <- Run(ctx, part, config.Options{File: filepath.Join(e.folder, "weir.yaml")}, &said) }()
	e.await("answered", func() bool { return e.check("203.0.113.7") == http.StatusOK })
	e.await("the aggregator waits", func() bool {
		_, text := e.ask("GET", aggregator, "/readyz", "")
		return strings.Contains(text, "no space left")
	})
	if code := e.check("203.0.113.7"); code != http.StatusOK {
		t.Errorf("while the disk is full: %d", code)
	}
	if got, text := e.ask("GET", collector, "/readyz", ""); got != http.StatusServiceUnavailable || !strings.Contains(text, "waits until the aggregator is open") {
		t.Errorf("the collector answers %d %s", got, text)
	}
	cancel()
	if got := <-code; got != exit.Done {
		t.Errorf("exit code %d: %s", got, said.String())
	}
	e.client.CloseIdleConnections()
}
