package haproxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"weir/pkg/blocklist"
	"weir/test/port"
	"weir/test/real"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listed is a list for tests.
type listed struct {
	mu      sync.Mutex
	entries []*blocklist.Entry
	part    bool
	changed chan struct{}
	edits   uint64
}

func newList(blocked map[string]time.Duration) *listed {
	l := &listed{changed: make(chan struct{})}
	l.set(blocked)
	return l
}

// set blocks addresses by hand, each for its duration; 0 is for ever.
func (l *listed) set(blocked map[string]time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
	for address, lasts := range blocked {
		until := int64(blocklist.Never)
		if lasts > 0 {
			until = time.Now().Add(lasts).UnixMilli()
		}
		l.entries = append(l.entries, &blocklist.Entry{Rule: "manual", Source: blocklist.Manual, From: 1, Until: until, Fields: map[string]string{"ip": address}})
	}
	l.edits++
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *listed) All(now int64) iter.Seq[*blocklist.Entry] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Values(slices.DeleteFunc(slices.Clone(l.entries), func(e *blocklist.Entry) bool { return e.Until <= now }))
}

func (l *listed) Orders(int64) iter.Seq[*blocklist.Order] {
	return func(func(*blocklist.Order) bool) {}
}

func (l *listed) Whole() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.part
}

func (l *listed) Edits() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.edits
}

func (l *listed) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

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

// await waits for a condition.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("never: %s", what)
		}
	}
}

// An edge is a HAProxy of a test.
type edge struct {
	t                   testing.TB
	folder, socket, web string
	tcp, mapFile        string
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
%s    http-request return status 200
`, e.socket, e.tcp, e.web, e.documented())
	if err := os.WriteFile(filepath.Join(e.folder, "haproxy.cfg"), []byte(config), 0o600); err != nil {
		e.t.Fatal(err)
	}
	e.master = exec.Command("haproxy", "-W", "-db", "-f", filepath.Join(e.folder, "haproxy.cfg"))
	var said safeBuffer
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
	await(e.t, "HAProxy listens", func() bool {
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
func (e *edge) status(from string) int {
	transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	response, err := client.Get("http://" + e.web + "/")
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

func (e *edge) config(list *listed) Config {
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
	list := newList(map[string]time.Duration{"127.0.0.9": time.Hour})
	start(t, e.config(list))
	await(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	for from, want := range map[string]int{"127.0.0.8": 200, "127.0.0.9": 429} {
		if got := e.status(from); got != want {
			t.Errorf("%s gets %d", from, got)
		}
	}
	list.set(map[string]time.Duration{"127.0.0.8": time.Hour})
	await(t, "the one is refused, the other let in", func() bool { return e.status("127.0.0.8") == 429 && e.status("127.0.0.9") == 200 })
	list.set(map[string]time.Duration{"127.0.0.8": time.Second, "127.0.1.0/24": time.Hour, "2001:db8::/64": 0})
	await(t, "others", func() bool { return e.status("127.0.1.77") == 429 && e.entries()["2001:db8::/64"] == "253402300799" })
	await(t, "its end", e.has("127.0.1.0/24", "2001:db8::/64"))
	await(t, "the file", func() bool {
		return strings.Contains(readFile(t, e.mapFile), "2001:db8::/64 253402300799\n") && !strings.Contains(readFile(t, e.mapFile), "127.0.0.8")
	})
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
	await(t, "its end", func() bool { return e.status("127.0.0.9") == 200 })
	if got := e.status("127.0.0.8"); got != 429 {
		t.Errorf("%d when another has ended", got)
	}
}

func TestReloadsAndRestartsAreNoticed(t *testing.T) {
	e := newEdge(t)
	registry := prometheus.NewRegistry()
	list := newList(map[string]time.Duration{"127.0.0.9": time.Hour, "10.0.0.0/8": time.Hour})
	c := e.config(list)
	c.Metrics = registry
	a := start(t, c)
	await(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	await(t, "the list", func() bool { return testutil.ToFloat64(a.metrics.entries) == 2 })
	if err := os.WriteFile(e.mapFile, []byte("192.0.2.1 1\n"), 0o600); err != nil { // an older one
		t.Fatal(err)
	}
	if err := e.master.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	await(t, "the reload", func() bool { return testutil.ToFloat64(a.metrics.restarts) == 1 })
	await(t, "the list again", e.has("127.0.0.9", "10.0.0.0/8"))
	e.end(e.master)
	await(t, "that it is away", func() bool { return testutil.ToFloat64(a.metrics.failures.WithLabelValues("unreachable")) > 0 })
	list.set(map[string]time.Duration{"127.0.0.8": time.Hour})
	await(t, "the file without HAProxy", func() bool { return strings.HasPrefix(readFile(t, e.mapFile), "127.0.0.8 ") })
	e.run()
	if e.status("127.0.0.8") != 429 {
		t.Error("HAProxy does not begin with the file")
	}
	await(t, "the restart", func() bool { return testutil.ToFloat64(a.metrics.restarts) == 2 })
}

func TestForeignChangesToTheMapAreUndone(t *testing.T) {
	e := newEdge(t)
	a := start(t, e.config(newList(map[string]time.Duration{"127.0.0.9": time.Hour})))
	await(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	await(t, "the list", e.has("127.0.0.9"))
	for i, command := range []string{"clear map " + e.mapFile, "add map " + e.mapFile + " 192.0.2.1 1"} {
		await(t, "that it is known", func() bool { return testutil.ToFloat64(a.metrics.entries) == 1 })
		e.tell(command)
		await(t, "it is counted", func() bool { return testutil.ToFloat64(a.metrics.differences) == float64(i+1) })
		await(t, "all is right", e.has("127.0.0.9"))
	}
}

// A list far longer than a command, and one with too many changes for single commands.
func TestALongListIsSwappedIn(t *testing.T) {
	e := newEdge(t)
	blocked := map[string]time.Duration{}
	for i := range 20_000 {
		blocked[fmt.Sprintf("10.1.%d.%d", i>>8, i&0xff)] = time.Hour
	}
	list := newList(blocked)
	a := start(t, e.config(list))
	await(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	await(t, "the list", func() bool { return testutil.ToFloat64(a.metrics.entries) == 20_000 })
	if got := len(e.entries()); got < 10_000 { // the answer is cut off
		t.Errorf("%d entries", got)
	}
	list.set(map[string]time.Duration{"127.0.0.9": time.Hour})
	await(t, "one", e.has("127.0.0.9"))
}

func TestNothingChangesBeforeTheListIsComplete(t *testing.T) {
	e := newEdge(t)
	list := newList(nil)
	list.part = true
	a := start(t, e.config(list))
	await(t, "an empty file", func() bool { _, err := os.Stat(e.mapFile); return err == nil })
	e.run()
	e.tell("add map " + e.mapFile + " 127.0.0.9 253402300799")
	list.set(map[string]time.Duration{"127.0.0.8": time.Hour})
	await(t, "it has looked", func() bool { return e.status("127.0.0.8") == 200 })
	list.mu.Lock()
	list.part = false
	list.mu.Unlock()
	list.set(map[string]time.Duration{"127.0.0.8": time.Hour})
	await(t, "the whole list", e.has("127.0.0.8"))
	if got := testutil.ToFloat64(a.metrics.entries); got != 1 {
		t.Errorf("%v entries", got)
	}
}

func TestTheRuntimeAPIOverTCP(t *testing.T) {
	e := newEdge(t)
	c := e.config(newList(map[string]time.Duration{"127.0.0.9": time.Hour}))
	c.Socket = e.tcp
	a := start(t, c)
	await(t, "the map's file", func() bool { return readFile(t, e.mapFile) != "" })
	e.run()
	await(t, "the list", func() bool { return testutil.ToFloat64(a.metrics.entries) == 1 })
}

// A refusal of HAProxy is logged once, with the remedy.
func TestRefusalsHaveTheirRemedy(t *testing.T) {
	e := newEdge(t)
	list := newList(map[string]time.Duration{"127.0.0.9": time.Hour})
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
			var log safeBuffer
			a := start(t, Config{List: list, Socket: test.socket, Map: test.path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			failures := func() (sum float64) {
				for _, kind := range kinds {
					sum += testutil.ToFloat64(a.metrics.failures.WithLabelValues(kind))
				}
				return sum
			}
			await(t, "it tries again", func() bool { return failures() >= 3 })
			if got := strings.Count(log.String(), test.want); got != 1 {
				t.Errorf("%q is said %d times: %s", test.want, got, log.String())
			}
		})
	}
}

func TestDryRunPrintsCommandsAndDoesNothing(t *testing.T) {
	var told safeBuffer
	path := filepath.Join(t.TempDir(), "weir.map")
	list := newList(map[string]time.Duration{"203.0.113.7": 0})
	start(t, Config{List: list, Socket: "/nowhere", Map: path, DryRun: &told, Value: Rule})
	await(t, "the list", func() bool {
		return told.String() == "prepare map "+path+"\nadd map @1 "+path+" <<\n203.0.113.7 manual\n\ncommit map @1 "+path+"\n"
	})
	list.set(map[string]time.Duration{"203.0.113.8": 0})
	await(t, "the change", func() bool {
		return strings.HasSuffix(told.String(), "add map "+path+" <<\n203.0.113.8 manual\n\ndel map "+path+" 203.0.113.7\n")
	})
	if _, err := os.Stat(path); err == nil {
		t.Error("a dry run wrote the file")
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
