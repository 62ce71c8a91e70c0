package haproxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"weir/test/blocked"
	"weir/test/locked"
	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs an Agent until the test ends.
func start(t testing.TB, c Config) *Agent {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := New(c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return a
}

// An edge is a HAProxy of a test.
type edge struct {
	t                   testing.TB
	folder, socket, web string
	tcp, mapFile        string
	first               string // lines of the frontend before those of the docs
	master              *exec.Cmd
}

func newEdge(t testing.TB) *edge {
	t.Helper()
	real.Program(t, "haproxy", "haproxy")
	folder, err := os.MkdirTemp("", "haproxy") // t.TempDir's names may be too long for a socket's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return &edge{t: t, folder: folder, socket: filepath.Join(folder, "admin.sock"),
		mapFile: filepath.Join(folder, "weir.map"), web: port.Reserve(t, "127.0.0.1"), tcp: port.Reserve(t, "127.0.0.1")}
}

// run starts HAProxy as its unit does, a master and a worker, and waits until it listens.
func (e *edge) run() {
	e.t.Helper()
	config := fmt.Sprintf(`global
    stats socket %s mode 600 level admin
    stats socket ipv4@%s level admin
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 1s
frontend web
    bind %s
%s%s    http-request return status 200
`, e.socket, e.tcp, e.web, e.first, e.documented())
	if err := os.WriteFile(filepath.Join(e.folder, "haproxy.cfg"), []byte(config), 0o600); err != nil {
		e.t.Fatal(err)
	}
	e.master = exec.Command("haproxy", "-W", "-db", "-f", filepath.Join(e.folder, "haproxy.cfg"))
	var said locked.Buffer
	e.master.Stdout, e.master.Stderr = &said, &said
	if err := e.master.Start(); err != nil {
		e.t.Fatal(err)
	}
	master := e.master
	e.t.Cleanup(func() {
		e.end(master)
		if e.t.Failed() {
			e.t.Logf("HAProxy said: %s", said.String())
		}
	})
	wait.Until(e.t, "HAProxy listens", func() bool {
		return strings.Contains(said.String(), "Loading success") && e.status("127.0.0.1") != 0
	})
}

// documented returns the lines for HAProxy's frontend from docs/agents.md.
func (e *edge) documented() string {
	e.t.Helper()
	_, lines, found := strings.Cut(readFile(e.t, "../../../docs/agents.md"), "\nfrontend web\n")
	lines, _, closed := strings.Cut(lines, "```")
	if !found || !closed {
		e.t.Fatal("docs/agents.md has no frontend")
	}
	return strings.ReplaceAll(lines, "/var/lib/weir/haproxy.map", e.mapFile)
}

func (e *edge) end(master *exec.Cmd) {
	if master.ProcessState == nil {
		_ = master.Process.Signal(syscall.SIGTERM)
		_ = master.Wait()
	}
}

// status returns the status that a client at an address gets; 0 without an answer.
func (e *edge) status(from string) int { return e.statusThrough(from, "") }

// statusThrough is status, with addresses in X-Forwarded-For.
func (e *edge) statusThrough(from, forwarded string) int {
	transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	request, err := http.NewRequest(http.MethodGet, "http://"+e.web+"/", nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if forwarded != "" {
		request.Header.Set("X-Forwarded-For", forwarded)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// entries returns the keys and values of the map.
func (e *edge) entries() map[string]string {
	answer, err := (&connections{e.socket}).ask(context.Background(), "show map "+e.mapFile)
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for line := range strings.Lines(answer) {
		if words := strings.Fields(line); len(words) == 3 {
			found[words[1]] = words[2]
		}
	}
	return found
}

func (e *edge) has(keys ...string) func() bool {
	return func() bool {
		found := e.entries()
		return len(found) == len(keys) && !slices.ContainsFunc(keys, func(key string) bool { return found[key] == "" })
	}
}

func (e *edge) config(list *blocked.List) Config {
	return Config{List: list, Socket: e.socket, Map: e.mapFile}
}

func (e *edge) tell(command string) {
	e.t.Helper()
	if answer, err := (&connections{e.socket}).ask(context.Background(), command); err != nil || strings.TrimSpace(answer) != "" {
		e.t.Fatalf("%s: %s %v", command, answer, err)
	}
}

func TestBlockedClientsAreRefused(t *testing.T) {
	e := newEdge(t)
	list := blocked.NewList(map[string]time.Duration{"127.0.0.9": time.Hour})
	start(t, e.config(list))
	wait.Until(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	for from, want := range map[string]int{"127.0.0.8": 200, "127.0.0.9": 429} {
		if got := e.status(from); got != want {
			t.Errorf("%s gets %d", from, got)
		}
	}
	list.Set(map[string]time.Duration{"127.0.0.8": time.Hour})
	wait.Until(t, "the one is refused, the other let in", func() bool { return e.status("127.0.0.8") == 429 && e.status("127.0.0.9") == 200 })
	list.Set(map[string]time.Duration{"127.0.0.8": time.Second, "127.0.1.0/24": time.Hour, "2001:db8::/64": 0})
	wait.Until(t, "others", func() bool { return e.status("127.0.1.77") == 429 && e.entries()["2001:db8::/64"] == "253402300799" })
	wait.Until(t, "its end", e.has("127.0.1.0/24", "2001:db8::/64"))
	wait.Until(t, "the file", func() bool {
		return strings.Contains(readFile(t, e.mapFile), "2001:db8::/64 253402300799\n") && !strings.Contains(readFile(t, e.mapFile), "127.0.0.8")
	})
}

// behindBalancer matches the line for a load balancer in docs/agents.md.
var behindBalancer = regexp.MustCompile("`(http-request set-src .*)`")

// Behind a load balancer, the client is the address that the balancer has added. No other client can name one.
func TestBehindALoadBalancer(t *testing.T) {
	line := behindBalancer.FindStringSubmatch(readFile(t, "../../../docs/agents.md"))
	if line == nil || !strings.Contains(line[1], "192.0.2.0/24") {
		t.Fatal("docs/agents.md has no line for a load balancer")
	}
	e := newEdge(t)
	e.first = "    " + strings.Replace(line[1], "192.0.2.0/24", "127.0.2.0/24", 1) + "\n"
	start(t, e.config(blocked.NewList(map[string]time.Duration{"203.0.113.9": time.Hour, "127.0.0.9": time.Hour})))
	wait.Until(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	for _, test := range []struct {
		from, forwarded string
		want            int
	}{
		{"127.0.2.1", "203.0.113.9", 429},
		{"127.0.2.1", "198.51.100.1, 203.0.113.9", 429},
		{"127.0.2.1", "203.0.113.9, 198.51.100.1", 200},
		{"127.0.2.1", "198.51.100.1,203.0.113.9", 429},
		{"127.0.2.1", `", 203.0.113.9`, 429},
		{"127.0.2.1", `"198.51.100.1, 203.0.113.9`, 429},
		{"127.0.2.1", `198.51.100.1, "\", 203.0.113.9`, 429},
		{"127.0.2.1", "", 200},
		{"127.0.0.8", "203.0.113.9", 200},
		{"127.0.0.9", "198.51.100.1", 429},
	} {
		if got := e.statusThrough(test.from, test.forwarded); got != test.want {
			t.Errorf("from %s for %q: %d, want %d", test.from, test.forwarded, got, test.want)
		}
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// When no agent removes ended blocks, HAProxy's configuration lets the clients in by itself.
func TestABlockEndsWithoutTheEnforcer(t *testing.T) {
	e := newEdge(t)
	now := time.Now().Unix()
	if err := os.WriteFile(e.mapFile, fmt.Appendf(nil, "127.0.0.8 %d\n127.0.0.9 %d\n", now+3600, now+2), 0o600); err != nil {
		t.Fatal(err)
	}
	e.run()
	if got := e.status("127.0.0.8"); got != 429 {
		t.Errorf("%d", got)
	}
	wait.Until(t, "its end", func() bool { return e.status("127.0.0.9") == 200 })
	if got := e.status("127.0.0.8"); got != 429 {
		t.Errorf("%d when another has ended", got)
	}
}

func TestReloadsAndRestartsAreNoticed(t *testing.T) {
	e := newEdge(t)
	registry := prometheus.NewRegistry()
	list := blocked.NewList(map[string]time.Duration{"127.0.0.9": time.Hour, "10.0.0.0/8": time.Hour})
	c := e.config(list)
	c.Metrics = registry
	a := start(t, c)
	wait.Until(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	wait.Until(t, "the list", func() bool { return testutil.ToFloat64(a.metrics.entries) == 2 })
	if err := os.WriteFile(e.mapFile, []byte("192.0.2.1 1\n"), 0o600); err != nil { // an older one
		t.Fatal(err)
	}
	if err := e.master.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the reload", func() bool { return testutil.ToFloat64(a.metrics.restarts) == 1 })
	wait.Until(t, "the list again", e.has("127.0.0.9", "10.0.0.0/8"))
	e.end(e.master)
	wait.Until(t, "that it is away", func() bool { return testutil.ToFloat64(a.metrics.failures.WithLabelValues("unreachable")) > 0 })
	wait.Until(t, "its fault", func() bool { return a.Fault() != "" })
	list.Set(map[string]time.Duration{"127.0.0.8": time.Hour})
	wait.Until(t, "the file without HAProxy", func() bool { return strings.HasPrefix(readFile(t, e.mapFile), "127.0.0.8 ") })
	e.run()
	if e.status("127.0.0.8") != 429 {
		t.Error("HAProxy does not begin with the file")
	}
	wait.Until(t, "the restart", func() bool { return testutil.ToFloat64(a.metrics.restarts) == 2 })
	wait.Until(t, "the fault is over", func() bool { return a.Fault() == "" })
}

func TestForeignChangesToTheMapAreUndone(t *testing.T) {
	e := newEdge(t)
	a := start(t, e.config(blocked.NewList(map[string]time.Duration{"127.0.0.9": time.Hour})))
	wait.Until(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	wait.Until(t, "the list", e.has("127.0.0.9"))
	for i, command := range []string{"clear map " + e.mapFile, "add map " + e.mapFile + " 192.0.2.1 1"} {
		wait.Until(t, "that it is known", func() bool { return testutil.ToFloat64(a.metrics.entries) == 1 })
		e.tell(command)
		wait.Until(t, "it is counted", func() bool { return testutil.ToFloat64(a.metrics.differences) == float64(i+1) })
		wait.Until(t, "all is right", e.has("127.0.0.9"))
	}
}

// A list far longer than a command, and one with too many changes for single commands.
func TestALongListIsSwappedIn(t *testing.T) {
	e := newEdge(t)
	refused := map[string]time.Duration{}
	for i := range 20_000 {
		refused[fmt.Sprintf("10.1.%d.%d", i>>8, i&0xff)] = time.Hour
	}
	list := blocked.NewList(refused)
	a := start(t, e.config(list))
	wait.Until(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	wait.Until(t, "the list", func() bool { return testutil.ToFloat64(a.metrics.entries) == 20_000 })
	if got := len(e.entries()); got < 10_000 { // the answer is cut off
		t.Errorf("%d entries", got)
	}
	list.Set(map[string]time.Duration{"127.0.0.9": time.Hour})
	wait.Until(t, "one", e.has("127.0.0.9"))
}

func TestNothingChangesBeforeTheListIsComplete(t *testing.T) {
	e := newEdge(t)
	list := blocked.NewList(nil)
	list.SetWhole(false)
	a := start(t, e.config(list))
	wait.Until(t, "an empty file", func() bool { _, err := os.Stat(e.mapFile); return err == nil })
	e.run()
	e.tell("add map " + e.mapFile + " 127.0.0.9 253402300799")
	list.Set(map[string]time.Duration{"127.0.0.8": time.Hour})
	wait.Until(t, "it has looked", func() bool { return e.status("127.0.0.8") == 200 })
	list.SetWhole(true)
	list.Set(map[string]time.Duration{"127.0.0.8": time.Hour})
	wait.Until(t, "the whole list", e.has("127.0.0.8"))
	wait.Until(t, "one entry", func() bool { return testutil.ToFloat64(a.metrics.entries) == 1 })
}

func TestTheRuntimeAPIOverTCP(t *testing.T) {
	e := newEdge(t)
	c := e.config(blocked.NewList(map[string]time.Duration{"127.0.0.9": time.Hour}))
	c.Socket = e.tcp
	a := start(t, c)
	wait.Until(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	wait.Until(t, "the list", func() bool { return testutil.ToFloat64(a.metrics.entries) == 1 })
}

// A refusal of HAProxy is logged once, with the remedy.
func TestRefusalsHaveTheirRemedy(t *testing.T) {
	e := newEdge(t)
	list := blocked.NewList(map[string]time.Duration{"127.0.0.9": time.Hour})
	if err := os.WriteFile(e.mapFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e.run()
	other := filepath.Join(e.folder, "other.map")
	for _, test := range []struct{ name, socket, path, want string }{
		{"another map", e.socket, other, "it has no map " + other},
		{"no socket", filepath.Join(e.folder, "none"), e.mapFile, "is it the path of HAProxy's stats socket?"},
		{"no folder for the file", e.socket, filepath.Join(e.folder, "none", "weir.map"), "writing HAProxy's map"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log locked.Buffer
			a := start(t, Config{List: list, Socket: test.socket, Map: test.path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			failures := func() (sum float64) {
				for _, kind := range kinds {
					sum += testutil.ToFloat64(a.metrics.failures.WithLabelValues(kind))
				}
				return sum
			}
			wait.Until(t, "it tries again", func() bool { return failures() >= 3 })
			if got := strings.Count(log.String(), test.want); got != 1 {
				t.Errorf("%q is said %d times: %s", test.want, got, log.String())
			}
		})
	}
}

func TestDryRunPrintsCommandsAndDoesNothing(t *testing.T) {
	var told locked.Buffer
	path := filepath.Join(t.TempDir(), "weir.map")
	list := blocked.NewList(map[string]time.Duration{"203.0.113.7": 0})
	start(t, Config{List: list, Socket: "/nowhere", Map: path, DryRun: &told, Value: Rule})
	wait.Until(t, "the list", func() bool {
		return told.String() == "prepare map "+path+"\nadd map @1 "+path+" <<\n203.0.113.7 manual\n\ncommit map @1 "+path+"\n"
	})
	list.Set(map[string]time.Duration{"203.0.113.8": 0})
	wait.Until(t, "the change", func() bool {
		return strings.HasSuffix(told.String(), "add map "+path+" <<\n203.0.113.8 manual\n\ndel map "+path+" 203.0.113.7\n")
	})
	if _, err := os.Stat(path); err == nil {
		t.Error("a dry run wrote the file")
	}
}
