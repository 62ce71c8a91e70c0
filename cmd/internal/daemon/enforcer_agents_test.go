package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/internal/kafka"
)

// The agents get the list, the rules and the mode of the enforcer, as they change.
func TestAnEnforcerKeepsHAProxysMap(t *testing.T) {
	t.Parallel()
	broker := newMortal(t)
	e := newEdge(t, broker.yaml(), "  haproxy: {socket: none.sock, map: haproxy.map, value: rule}").start()
	p := newPublisher(t, kafka.Config{Brokers: []string{broker.config.Listen}, Prefix: "weir."}, e.process.Config)
	has := func(want string) func() bool {
		return func() bool {
			text, err := os.ReadFile(filepath.Join(e.folder, "haproxy.map"))
			return err == nil && string(text) == want
		}
	}
	e.await("made", has(""))
	p.block("203.0.113.7")
	p.block("203.0.113.8")
	p.marks()
	e.await("whole", has("203.0.113.7 per-ip\n203.0.113.8 per-ip\n"))
	e.await("HAProxy is away", func() bool {
		_, text := e.ask("GET", e.admin, "/status", "")
		return strings.Contains(text, "the list is not applied everywhere: ") && strings.Contains(text, "none.sock")
	})
	e.order("POST", "/v1/blocks", `{"target":"198.51.100.0/30","why":"scraper"}`)
	e.order("POST", "/v1/allows", `{"target":"198.51.100.1","why":"a customer"}`)
	e.await("ordered", has("198.51.100.0 manual\n198.51.100.2/31 manual\n203.0.113.7 per-ip\n203.0.113.8 per-ip\n"))
	e.write("rules.yaml", oneRule+"allow: [{ip: 203.0.113.7}]\n")
	e.await("allowed by the rules", has("198.51.100.0 manual\n198.51.100.2/31 manual\n203.0.113.8 per-ip\n"))
	text, err := os.ReadFile(filepath.Join(e.folder, "weir.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	e.write("weir.yaml", "mode: shadow\n"+string(text))
	e.await("in shadow mode", has(""))
}

func TestDryRunIsAFlagOfTheEnforcer(t *testing.T) {
	options, err := parse(Enforcer, []string{"enforcer", "--dry-run"}, os.Stdout)
	if err != nil || strings.Join(options.Set, " ") != "enforcer.dry_run=true" {
		t.Errorf("%v %v", options.Set, err)
	}
	if options, err := parse(Enforcer, []string{"enforcer"}, os.Stdout); err != nil || len(options.Set) > 0 {
		t.Errorf("%v %v", options.Set, err)
	}
	if _, err := parse(Collector, []string{"collector", "--dry-run"}, os.Stdout); err == nil {
		t.Error("a collector takes it")
	}
	if e := config.Default().Enforcer; e.NFTables.On || e.HAProxy.On() || e.DryRun {
		t.Errorf("%+v", e)
	}
}
