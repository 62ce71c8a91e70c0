package daemon

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/pkg/collector/listeners"
)

// When the senders of one source cannot be read, those of all sources stay.
func TestAReloadWithSendersThatCannotBeRead(t *testing.T) {
	p := &place{t: t, folder: t.TempDir()}
	p.write("rules.yaml", oneRule)
	p.write("senders.txt", "192.0.2.0/24\n")
	p.write("weir.yaml", `collector: {sources: [
  {name: one, syslog: "udp://127.0.0.1:5514", format: combined, from: [198.51.100.0/24]},
  {name: two, syslog: "udp://127.0.0.1:5515", format: combined, from: [{file: senders.txt}]}]}
`)
	c, _, err := config.Load(p.options())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(p.folder, "senders.txt")); err != nil {
		t.Fatal(err)
	}

	senders := listeners.NewSenders([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")})
	was := fmt.Sprintf("%+v", senders) // with the address of its list
	r := &RunningCollector{senders: map[string]*listeners.Senders{"one": senders}}
	if err := r.Reload(c); err == nil || fmt.Sprintf("%+v", senders) != was {
		t.Errorf("%v; the senders were %s and are %+v", err, was, senders)
	}
}

// A collector without sources would read nothing: it does not start.
func TestACollectorWithoutSources(t *testing.T) {
	p := &place{t: t, folder: t.TempDir()}
	p.write("rules.yaml", oneRule)
	p.write("weir.yaml", "kafka: {brokers: [\"127.0.0.1:9\"]}\n")
	c, _, err := config.Load(p.options())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Collector.Open(t.Context(), &Process{Config: c}); err == nil || !strings.Contains(err.Error(), "the configuration has no sources") || !exit.IsWrong(err) {
		t.Errorf("it starts, or ends with %v", err)
	}
}
