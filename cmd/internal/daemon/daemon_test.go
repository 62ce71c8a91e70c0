package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/kafka/embedded"
	"weir/internal/telemetry"
	"weir/test/locked"
	"weir/test/port"
	"weir/test/wait"
)

func TestMain(m *testing.M) {
	wait.Together(8)
	goleak.VerifyTestMain(m)
}

// A place is a folder with a configuration, and the process that runs in it.
type place struct {
	t       *testing.T
	part    Part
	folder  string
	heard   locked.Buffer
	process *Process
	address string
	cancel  context.CancelFunc
	ended   chan error

	set    []string
	client *http.Client // nil means http.DefaultClient
	scheme string       // empty means http
}

const oneRule = "rules: [{name: per-ip, key: ip, limits: [10/min]}]\n"

// newPlace makes a place with a collector's configuration for a broker that runs in the test.
func newPlace(t *testing.T, more string) *place {
	t.Helper()
	p := &place{t: t, part: Collector, folder: t.TempDir()}
	broker, err := embedded.Open(embedded.Config{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	p.write("rules.yaml", oneRule)
	p.write("access.log", "")
	p.address = port.Reserve(t, "127.0.0.1")
	p.write("weir.yaml", fmt.Sprintf("data: data\nkafka: {brokers: [%q]}\ncollector:\n  listen: %s\n  sources: [{file: access.log}]\n%s", broker.Address(), p.address, more))
	return p
}

func (p *place) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.folder, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) options() config.Options {
	return config.Options{File: filepath.Join(p.folder, "weir.yaml"), Set: p.set}
}

func (p *place) start() {
	p.t.Helper()
	settings, _, err := config.Load(p.options())
	if err != nil {
		p.t.Fatal(err)
	}
	p.process = &Process{Config: settings, Logger: slog.New(slog.NewTextHandler(io.MultiWriter(&p.heard, p.t.Output()), nil)), Metrics: telemetry.Metrics(p.part.Name), Health: telemetry.NewHealth()}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.ended = cancel, make(chan error, 1)
	go func() { p.ended <- p.process.run(ctx, p.part, p.options()) }()
	p.t.Cleanup(p.stop)
	p.await("ready", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK })
}

func (p *place) stop() {
	if p.cancel == nil {
		return
	}
	p.cancel()
	if err := <-p.ended; err != nil {
		p.t.Error(err)
	}
	p.cancel = nil
	http.DefaultClient.CloseIdleConnections()
}

func (p *place) get(path string) (int, string) {
	r, err := cmp.Or(p.client, http.DefaultClient).Get(cmp.Or(p.scheme, "http") + "://" + p.address + path)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(body)
}

func (p *place) await(what string, is func() bool) {
	p.t.Helper()
	wait.Until(p.t, what, is)
}

// rules returns the hash of the active rules; "" when the part does not answer.
func (p *place) rules() string {
	_, metrics := p.get("/metrics")
	_, rest, _ := strings.Cut(metrics, "weir_rules_info{hash=\"")
	hash, _, _ := strings.Cut(rest, "\"")
	return hash
}

func TestACollectorSaysHowItStands(t *testing.T) {
	p := newPlace(t, "")
	p.start()
	p.write("access.log", `203.0.113.7 - - [03/Mar/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 2 "-" "-"`+"\n")
	p.await("read", func() bool {
		_, metrics := p.get("/metrics")
		return strings.Contains(metrics, `weir_collector_hits_total{rule="per-ip",source="file-1"} 1`)
	})
	p.await("caught up", func() bool {
		_, text := p.get("/status")
		var status struct {
			Rules    string
			CaughtUp bool `json:"caught_up"`
			Sources  []struct{ Source, Kind string }
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			t.Fatal(err, text)
		}
		return status.CaughtUp && status.Rules == p.process.Config.RuleSet.Fingerprint() && len(status.Sources) == 1 && status.Sources[0].Source == "file-1"
	})
	if code, why := p.get("/debug/pprof/"); code != http.StatusUnauthorized || !strings.Contains(why, "role admin") {
		t.Errorf("profiles without a key: %d %s", code, why)
	}
	if problems, err := testutil.GatherAndLint(p.process.Metrics); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

func TestRulesAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.start()
	was := p.rules()
	if was == "" {
		t.Fatal("ready, and no rules are in force")
	}
	p.write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [10/minuet]}]\n")
	p.await("refused", func() bool {
		_, metrics := p.get("/metrics")
		return strings.Contains(metrics, "weir_config_last_reload_successful 0") && strings.Contains(p.heard.String(), "minuet")
	})
	if p.rules() != was {
		t.Error("faulty rules are in force")
	}
	if _, status := p.get("/status"); !strings.Contains(status, `"refused": "`+p.folder+`/rules.yaml:1:42: `) || !strings.Contains(status, `"caught_up"`) {
		t.Errorf("the status does not have the reason: %s", status)
	}
	p.write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [11/min]}]\n")
	p.await("taken", func() bool { now := p.rules(); return now != "" && now != was })
	if _, metrics := p.get("/metrics"); !strings.Contains(metrics, "weir_config_last_reload_successful 1") {
		t.Error("the metrics say that rules which are in force were refused")
	}
	if _, status := p.get("/status"); strings.Contains(status, `"refused"`) {
		t.Errorf("the status has a reason that is over: %s", status)
	}
}

// Reading a named pipe never ends. It is refused, and does not keep later changes from being read.
func TestRulesThatAreAPipeStopNoReload(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "rules: rules.yaml\n")
	p.start()
	was := p.rules()
	rules := filepath.Join(p.folder, "rules.yaml")
	if err := errors.Join(syscall.Mkfifo(rules+".new", 0o600), os.Rename(rules+".new", rules)); err != nil {
		t.Fatal(err)
	}
	p.await("refused", func() bool { return strings.Contains(p.heard.String(), "no regular file") })

	if err := os.Remove(rules); err != nil {
		t.Fatal(err)
	}
	p.write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [11/min]}]\n")
	p.await("taken", func() bool { now := p.rules(); return now != "" && now != was })
}

// A change while a part waits for Kafka, or for its store, is read when the part is open.
func TestRulesAreReadAgainThatChangedDuringTheStart(t *testing.T) {
	p := newPlace(t, "")
	p.part.Open = func(ctx context.Context, process *Process) (Running, error) {
		running, err := Collector.Open(ctx, process)
		p.write("rules.yaml", "rules: [{name: per-ip, key: ip, limits: [11/min]}]\n")
		return running, err
	}
	p.start()
	was := p.process.Config.RuleSet.Fingerprint()
	p.await("taken", func() bool { now := p.rules(); return now != "" && now != was })
}

func TestAHangupHasTheConfigurationReadAgain(t *testing.T) {
	p := newPlace(t, "")
	p.start()
	p.await("read again", func() bool {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(p.heard.String(), "read the configuration again")
	})
	if err := os.Remove(filepath.Join(p.folder, "rules.yaml")); err != nil {
		t.Fatal(err)
	}
	p.await("refused", func() bool { return strings.Contains(p.heard.String(), "is refused") })
}

func TestBeyondLoopbackAKeyIsAskedFor(t *testing.T) {
	p := newPlace(t, "  keys: keys.yaml\n")
	hash := func(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }
	p.write("keys.yaml", fmt.Sprintf("keys: [{name: a, role: read, sha256: %s}, {name: b, role: admin, sha256: %s}]\n", hash("reader"), hash("admin")))
	p.start()
	for _, test := range []struct {
		path, key string
		want      int
	}{
		{"/healthz", "", 200}, {"/readyz", "", 200}, {"/metrics", "", 401}, {"/status", "wrong", 401}, {"/metrics", "reader", 200},
		{"/debug/pprof/", "reader", 403}, {"/debug/pprof/", "admin", 200},
	} {
		request, _ := http.NewRequest(http.MethodGet, "http://"+p.address+test.path, nil)
		if test.key != "" {
			request.Header.Set("X-Api-Key", test.key)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s with %q: %d, want %d", test.path, test.key, response.StatusCode, test.want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	p := newPlace(t, "")
	file := filepath.Join(p.folder, "weir.yaml")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, test := range []struct {
		name string
		args []string
		want int
		says string
	}{
		{"help", []string{"--help"}, exit.Done, "--set"},
		{"version", []string{"--version"}, exit.Done, "collector"},
		{"an unknown flag", []string{"--nonsense"}, exit.WrongUse, "nonsense"},
		{"an argument too many", []string{"--config", file, "more"}, exit.WrongUse, "unexpected argument"},
		{"no such file", []string{"--config", file + "x"}, exit.WrongUse, "weir.yamlx"},
		{"a fault", []string{"--config", file, "--set", "collector.listen=nowhere"}, exit.WrongUse, "nowhere"},
		{"a broker that is in another process", []string{"--config", file, "--set", "kafka.brokers=embedded", "--set", "collector.listen=" + port.Reserve(t, "127.0.0.1")}, exit.WrongUse, "any other process needs kafka.brokers: [host:9092]"},
		{"an address that another has", []string{"--config", file, "--set", "collector.listen=" + taken.Addr().String()}, exit.Failed, "otherwise write another address in collector.listen"},
		{"an address that is not ours", []string{"--config", file, "--set", "collector.listen=192.0.2.1:1", "--set", "collector.keys="}, exit.WrongUse, "reached from other machines"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out locked.Buffer
			if got := Main(Collector, append([]string{"collector"}, test.args...), &out, &out); got != test.want {
				t.Errorf("exit code %d, want %d: %s", got, test.want, out.String())
			}
			if !strings.Contains(out.String(), test.says) {
				t.Errorf("it says nothing of %q: %s", test.says, out.String())
			}
		})
	}
}
