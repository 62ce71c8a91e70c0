// Package e2e tests Weir as a site runs it: real daemons, built with the race detector, a real Kafka and Redis, and a
// real nginx that writes its access log and asks the enforcer about each request. It tests the same under `weir run`.
package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/internal/store/redis/redistest"
	"weir/test/locked"
	"weir/test/port"
	"weir/test/wait"
)

// programs is a folder for the tested programs.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "weir-e2e-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(programs)
	return kafkatest.Run(m)
}

var building sync.Mutex

// build makes a program, once.
func build(t testing.TB, name string, flags ...string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	path := filepath.Join(programs, strings.Join(append(flags, name), ""))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	arguments := append(append([]string{"build"}, flags...), "-o", path, "weir/cmd/"+name)
	if said, err := exec.Command("go", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, said)
	}
	return path
}

// patience is how long a test waits for an expected result.
const patience = 2 * time.Minute

// A fleet is a folder with a configuration, and its processes.
type fleet struct {
	t         testing.TB
	folder    string
	enforcer  string // where it listens
	admins    map[string]string
	processes []*process
}

type process struct {
	name    string
	command *exec.Cmd
	said    locked.Buffer
	ended   chan struct{}
}

// newFleet writes the configuration of all parts, followed by more.
func newFleet(t testing.TB, rules, more string) *fleet {
	t.Helper()
	f := &fleet{t: t, folder: t.TempDir(), enforcer: port.Reserve(t, "127.0.0.1"), admins: map[string]string{}}
	for _, part := range []string{"collector", "aggregator", "enforcer"} {
		f.admins[part] = port.Reserve(t, "127.0.0.1")
	}
	f.write("rules.yaml", rules)
	f.write("weir.yaml", fmt.Sprintf(`
data: data
client: {trusted_proxies: [127.0.0.1/32]}
collector: {listen: %q, sources: [{name: site, file: [%q], format: combined}]}
aggregator: {listen: %q, hot_keys: 10000}
enforcer: {listen: %q, admin: %q}
%s`, f.admins["collector"], f.path("access.log"), f.admins["aggregator"], f.enforcer, f.admins["enforcer"], more))
	f.write("access.log", "")
	t.Cleanup(f.stop)
	return f
}

// apart is the configuration of separate parts with a real Kafka and Redis.
func apart(t testing.TB) string {
	t.Helper()
	cluster := kafkatest.Shared(t)
	redis := redistest.Start(t, "--appendonly", "yes")
	return fmt.Sprintf("kafka: {brokers: [%s], prefix: %s, hits: {partitions: 4, retention: 48h}}\nstore: {redis: \"redis://%s/0\"}\n",
		strings.Join(cluster.Addresses(), ", "), prefix(t), redis.Addr)
}

func prefix(t testing.TB) string {
	return strings.NewReplacer("/", ".", "=", "-").Replace(t.Name()) + fmt.Sprintf(".%d.", time.Now().UnixNano())
}

func (f *fleet) path(name string) string { return filepath.Join(f.folder, name) }

func (f *fleet) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) append(name string, b []byte) {
	f.t.Helper()
	file, err := os.OpenFile(f.path(name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(b); err != nil {
		f.t.Fatal(err)
	}
}

// start starts a program on the configuration.
func (f *fleet) start(program string, arguments ...string) *process {
	f.t.Helper()
	p := &process{name: filepath.Base(program), command: exec.Command(program, append(arguments, "--config", f.path("weir.yaml"))...), ended: make(chan struct{})}
	p.command.Stderr, p.command.Stdout, p.command.Dir = &p.said, &p.said, f.folder
	if err := p.command.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { p.command.Wait(); close(p.ended) }()
	f.processes = append(f.processes, p)
	return p
}

// ready waits until all parts are ready.
func (f *fleet) ready() {
	f.t.Helper()
	for part, address := range f.admins {
		wait.Until(f.t, part+" was ready", func() bool {
			answer, err := http.Get("http://" + address + "/readyz")
			if err != nil {
				return false
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
	}
}

// stop ends all processes in the order of their start, and shows their output when the test has failed. A data race
// fails the test.
func (f *fleet) stop() {
	for _, p := range f.processes {
		p.end(f.t, syscall.SIGTERM)
		if strings.Contains(p.said.String(), "DATA RACE") {
			f.t.Errorf("%s has a data race:\n%s", p.name, p.said.String())
		}
		if f.t.Failed() {
			f.t.Logf("%s said:\n%s", p.name, p.said.String())
		}
	}
	f.processes = nil
}

func (p *process) end(t testing.TB, signal syscall.Signal) {
	p.command.Process.Signal(signal)
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Errorf("%s does not end", p.name)
		p.command.Process.Kill()
		<-p.ended
	}
}

// checks asks the enforcer about a client and returns the status.
func (f *fleet) checks(client string) int {
	request, err := http.NewRequest(http.MethodGet, "http://"+f.enforcer+"/v1/check", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	request.Header.Set("X-Forwarded-For", client)
	request.Header.Set("X-Forwarded-Uri", "/")
	request.Header.Set("X-Forwarded-Method", "GET")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}
