// Package edges tests deployments/edge with the edges themselves: each file runs, with other ports and paths, in front
// of an application and with an enforcer behind it. A missing program skips its tests, or fails them with
// WEIR_REQUIRE_REAL.
package edges

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
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

	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer"
	"weir/pkg/enforcer/crowdsec"
	"weir/pkg/enforcer/envoy"
	"weir/pkg/enforcer/plain"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/locked"
	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

const snippets = "../../deployments/edge/"

// program is the path of a program, in one of the folders of WEIR_EDGES or of PATH.
func program(t *testing.T, name, pack string) string {
	t.Helper()
	for _, folder := range slices.Concat(filepath.SplitList(os.Getenv("WEIR_EDGES")), filepath.SplitList(os.Getenv("PATH")), []string{"/usr/sbin", "/sbin"}) {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			return path
		}
	}
	real.Missing(t, name+" is missing: the package "+pack+" has it")
	return ""
}

// snippet is a file of deployments/edge after replacements. The file must contain each replaced text.
func snippet(t *testing.T, name string, replace ...string) string {
	t.Helper()
	data, err := os.ReadFile(snippets + name)
	if err != nil {
		t.Fatal(err)
	}
	return replaced(t, string(data), replace...)
}

// replaced is a text after replacements.
func replaced(t *testing.T, text string, replace ...string) string {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("%s is not there", replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// freePort is a reserved port without a listener.
func freePort(t *testing.T) string {
	t.Helper()
	_, number, _ := net.SplitHostPort(port.Reserve(t, loopback))
	return number
}

// run starts a program and ends it with the test. Its output is shown when the test fails.
func run(t *testing.T, path string, args ...string) *locked.Buffer {
	t.Helper()
	said := &locked.Buffer{}
	command := exec.Command(path, args...)
	command.Stdout, command.Stderr = said, said
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir())
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		ended := make(chan struct{})
		go func() {
			_ = command.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = command.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(path), said)
		}
	})
	return said
}

// patience is how long to wait on a busy machine.
const patience = time.Minute

// The clients: loopback has many addresses.
const (
	goodClient    = "127.0.0.2"
	blockedClient = "127.0.0.66"
	key           = "the key of an edge"
	firewallKey   = "the key of a firewall"
	takeKey       = "the key of an application"
	// The addresses of edges and enforcers.
	loopback = "127.0.0.80"
	// The address of a load balancer.
	balancerAddress = "127.0.0.90"
)

// A site is an enforcer, and an application behind an edge.
type site struct {
	t       *testing.T
	set     *blocklist.Set
	address string // of the enforcer
	grpc    string // the same for gRPC
	app     string
	denies  bool // it denies requests while there is no list
	rules   string
	stop    func()
}

var trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix(balancerAddress + "/32")}

const rules = `
rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: per-user, key: user, limits: [10/min]}
  - {name: login, key: ip, limits: [5/min], match: 'path == "/login" and method == "POST"', block: {covers: match}}
  - {name: shop, key: [ip, host], limits: [5/min], match: 'host == "shop.example" and path == "/secret"', block: {covers: match}}
  - {name: per-tenant, key: tenant, limits: [10/min]}
  - {name: ten, key: ip, limits: [10/min], match: 'path == "by its name"', inline: true}
  - {name: at-once, key: ip, limits: [5/min], match: 'path startsWith "/at-once"', inline: true}
  - {name: claimed, key: claim, limits: [1000/min], inline: true}
  - {name: once, key: ip, limits: [5/min], match: 'path startsWith "/private/once"', inline: true}
  - {name: of-users, key: user, limits: [5/min], match: 'path endsWith "/of-users"', inline: true}
`

// newSite starts both on free ports.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, set: blocklist.NewSet(blocklist.Limits{}), rules: rules}
	now := time.Now().UnixMilli()
	s.set.Fill().Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "test", Epoch: 1}}, Whole: true, AsOf: now}, now)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case "/at-once/sign-in":
			s.signIn(w, r)
		}
		fmt.Fprint(w, "the application")
		if body, _ := io.ReadAll(r.Body); len(body) > 0 {
			fmt.Fprintf(w, " took %s", body)
		}
	}))
	t.Cleanup(app.Close)
	s.app = app.Listener.Addr().String()
	s.address, s.grpc = port.Reserve(t, loopback), port.Reserve(t, loopback)
	s.start()
	return s
}

// start starts an enforcer at the site's address.
func (s *site) start() {
	t := s.t
	t.Helper()
	parsed, _, err := rule.Parse("rules.yaml", []byte(s.rules))
	if err != nil {
		t.Fatal(err)
	}
	known, err := keys.Open(write(t, filepath.Join(t.TempDir(), "keys.yaml"), fmt.Sprintf("keys:\n  - {name: edge, role: read, sha256: %x}\n  - {name: firewall, role: read, sha256: %x}\n  - {name: application, role: take, sha256: %x}\n",
		sha256.Sum256([]byte(key)), sha256.Sum256([]byte(firewallKey)), sha256.Sum256([]byte(takeKey)))))
	if err != nil {
		t.Fatal(err)
	}
	logger, metrics := slog.New(slog.NewTextHandler(t.Output(), nil)), prometheus.NewRegistry()
	e, err := enforcer.Open(enforcer.Config{
		Set: s.set, Listen: s.address, Refusal: http.StatusTooManyRequests, Folder: t.TempDir(), Keys: known, Logger: logger, Metrics: metrics, DenyWithoutList: s.denies,
		Ruling: enforcer.Ruling{Rules: parsed, Header: "X-Forwarded-For", Fields: map[string]string{"user": "X-User", "tenant": "X-Tenant"},
			RequestID: "X-Weir-Request", Client: request.NewClient(trusted)},
	})
	if err != nil {
		t.Fatal(err)
	}
	bouncers := crowdsec.Open(crowdsec.Config{List: s.set, Rules: e.Rules, Addresses: []string{"firewall"}, Folder: t.TempDir(), Logger: logger, Metrics: metrics,
		Admit: func(r *http.Request) (string, bool) { by, err := e.Admit(r, keys.Read); return by, err == nil }})
	e.Mount(bouncers.Handle)
	e.Mount(plain.New(plain.Config{List: s.set, Rules: e.Rules, Guard: e.Guard}).Handle)
	calls, err := envoy.Open(envoy.Config{Decide: e, Listen: s.grpc, Keys: known, Logger: logger, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- e.Run(ctx) }()
	go func() { ended <- calls.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(s.stop)
	wait.Until(t, "the enforcer listens", func() bool { return e.Address() != "" && calls.Address() != "" })
}

// order sends a command and waits until it is active.
func (s *site) order(kind blocklist.Kind, target string) {
	s.t.Helper()
	s.orderFor(kind, target, time.Hour)
}

func (s *site) orderFor(kind blocklist.Kind, target string, d time.Duration) {
	s.t.Helper()
	scope, value, err := blocklist.ParseTarget(target)
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	o := &blocklist.Order{ID: fmt.Sprintf("%s %s %d", kind, target, now), Kind: kind, Scope: scope, Value: value, From: now, Until: now + d.Milliseconds(), By: "test", Why: "test"}
	if err := s.set.Order(o, now); err != nil {
		s.t.Fatal(err)
	}
}

// lift ends a block.
func (s *site) lift(target string) {
	s.t.Helper()
	scope, value, _ := blocklist.ParseTarget(target)
	now := time.Now().UnixMilli()
	o := &blocklist.Order{ID: "lifted", Kind: blocklist.OrderBlock, Scope: scope, Value: value, From: now - 1, Until: now + 1, Ended: now, By: "test", Why: "test"}
	if err := s.set.Order(o, now); err != nil {
		s.t.Fatal(err)
	}
}

// An answer is an edge's response.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// ask sends a request to an edge from an address. status is 0 when there is no response.
func ask(t *testing.T, from, url string, headers ...string) answer {
	t.Helper()
	return send(t, from, http.MethodGet, url, "", headers...)
}

func send(t *testing.T, from, method, url, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return sendRequest(from, r, headers...)
}

// sendTo sends a request without a body to a host, or to the URL's if host is empty.
func sendTo(t *testing.T, from, method, url, host string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	return sendRequest(from, r, headers...)
}

func sendRequest(from string, r *http.Request, headers ...string) answer {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: 20 * time.Second}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	began := time.Now()
	response, err := client.Do(r)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(text), time.Since(began)}
}

// awaitEdge waits until an edge passes requests on.
func awaitEdge(t *testing.T, url string) {
	t.Helper()
	wait.Until(t, "the edge answers", func() bool { return ask(t, goodClient, url).status == http.StatusOK })
}

// wants asks until the answer is the wanted one, and returns it. On a busy machine, an edge that waits a tenth of a
// second for its enforcer may let a client pass that it should refuse, and one that asks two may refuse a client that
// should pass.
func wants(t *testing.T, what string, status int, ask func() answer) (last answer) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%s, at last: %+v", what, last)
		}
	}()
	wait.Until(t, what, func() bool {
		last = ask()
		return last.status == status && (status != http.StatusTooManyRequests || last.header.Get("Retry-After") != "")
	})
	return last
}

// asksAndGoesOn checks every edge that asks: a blocked client gets 429 and the time to come again, others pass, also
// those that claim to be another client or a user that was not checked; the refusal is in the log; and without an
// enforcer all pass, in little time.
func (s *site) asksAndGoesOn(url string, log func() string, mark string) {
	t := s.t
	t.Helper()
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	s.order(blocklist.OrderBlock, "user:mallory")
	s.order(blocklist.OrderBlock, "path:/sealed")
	for _, asked := range []struct {
		what, from, path string
		headers          []string
		status           int
	}{
		{"who is blocked", blockedClient, "/path?q=1", nil, http.StatusTooManyRequests},
		{"who is blocked, as somebody else", blockedClient, "", []string{"X-Forwarded-For", goodClient}, http.StatusTooManyRequests},
		{"who says that they were who is blocked", goodClient, "", []string{"X-Forwarded-For", blockedClient}, http.StatusOK},
		{"a path", goodClient, "/sealed", nil, http.StatusTooManyRequests},
		{"a path, encoded", goodClient, "/%73ealed", nil, http.StatusTooManyRequests},
		{"a path with two slashes", goodClient, "//sealed?a", nil, http.StatusTooManyRequests},
		{"a path with dots", goodClient, "/x/%2e%2e/sealed", nil, http.StatusTooManyRequests},
		{"another path", goodClient, "/%2573ealed", nil, http.StatusOK},
		{"with a user's header", goodClient, "", []string{"X-User", "mallory"}, http.StatusOK},
		{"what the application forbids", goodClient, "/forbidden", nil, http.StatusForbidden},
	} {
		wants(t, asked.what, asked.status, func() answer { return ask(t, asked.from, url+asked.path, asked.headers...) })
	}
	if passed := wants(t, "who is not blocked", http.StatusOK, func() answer { return ask(t, goodClient, url+"/path?q=1") }); passed.body != "the application" {
		t.Errorf("who is not blocked: %+v", passed)
	}
	sends := func() answer { return send(t, goodClient, http.MethodPost, url, "a body") }
	if passed := wants(t, "who is not blocked sends a body", http.StatusOK, sends); passed.body != "the application took a body" {
		t.Errorf("who is not blocked sends a body: %+v", passed)
	}
	wait.Until(t, mark+" is in the log", func() bool { return strings.Contains(log(), mark) })
	s.stop()
	s.goesOn(url)
	s.hangs(url, s.address)
}

// goesOn asks while the enforcer is gone, until five in a row have passed in little time.
func (s *site) goesOn(url string) {
	s.t.Helper()
	wait.Until(s.t, "who asks without an enforcer passes in little time", func() bool {
		for range 5 {
			if !s.passed(ask(s.t, blockedClient, url), 500*time.Millisecond) {
				return false
			}
		}
		return true
	})
}

// hangs asks while an address of the enforcer accepts and never answers, until all have passed in little time, for longer
// than Caddy avoids a failed server.
func (s *site) hangs(url, address string) {
	t := s.t
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	wait.Until(t, "who asks with an enforcer that hangs passes in little time", func() bool {
		for i, end := 0, time.Now().Add(1500*time.Millisecond); time.Now().Before(end); i++ {
			if !s.passed(send(t, goodClient, []string{http.MethodPost, http.MethodGet}[i%2], url, "a body"), 2500*time.Millisecond) {
				return false
			}
		}
		return true
	})
}

// passed reports whether a request was passed on within the time.
func (s *site) passed(a answer, within time.Duration) bool {
	if a.status == http.StatusOK && a.took <= within {
		return true
	}
	s.t.Logf("not passed on within %v: %+v", within, a)
	return false
}
