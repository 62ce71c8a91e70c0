package enforcer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"weir/internal/keys"
	"weir/internal/topic"
	"weir/pkg/blocklist"
	"weir/pkg/request"
	"weir/pkg/rule"
)

var quiet = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rules = `
rules:
  - {name: per-ip, key: ip, limits: [10/min, 100/hour]}
  - {name: login, key: [user, path], limits: [5/10s], match: 'path == "/login" and status == 401', block: {covers: match}}
  - {name: tenant, key: tenant, limits: [3/min]}
allow: [{ip: 192.0.2.0/24}]
`

func parsed(t testing.TB, text string) *rule.Set {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func usualRuling(t testing.TB) Ruling {
	return Ruling{Rules: parsed(t, rules), Header: "X-Forwarded-For", Fields: map[string]string{"user": "X-User"},
		Client: request.NewClient([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")})}
}

// verdict is an entry of a rule that lasts for ten minutes.
func verdict(rule, key string, fields map[string]string) *blocklist.Entry {
	now := time.Now().UnixMilli()
	return &blocklist.Entry{ID: blocklist.ID(rule, key, now, 1), Rule: rule, Key: key, Fields: fields, From: now - 1000, Until: now + 600_000,
		Decided: now - 900, Limit: "10/min", Count: 11, Level: 1, By: "weir"}
}

func ofIP(key string) *blocklist.Entry { return verdict("per-ip", key, map[string]string{"ip": key}) }

// list returns a complete list with the entries.
func list(t testing.TB, entries ...*blocklist.Entry) *blocklist.Set {
	t.Helper()
	set := blocklist.NewSet(blocklist.Limits{})
	filling := set.Fill()
	now := time.Now().UnixMilli()
	for i, e := range entries {
		if err := filling.Apply(now, changeOf(t, int64(i), e)); err != nil {
			t.Fatal(err)
		}
	}
	filling.Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "test", Epoch: 1}, Offset: int64(len(entries))}, Whole: true, AsOf: now}, now)
	return set
}

func changeOf(t testing.TB, offset int64, e *blocklist.Entry) blocklist.Change {
	t.Helper()
	value, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return blocklist.Change{Offset: offset, Key: blocklist.RecordKey(e.Rule, e.Key), Value: value}
}

// A gathering sink accepts messages and acknowledges them while it is not away.
type gathering struct {
	mu   sync.Mutex
	away bool
	held []topic.Message
	took []topic.Message
}

func (g *gathering) Send(_ context.Context, messages ...topic.Message) error {
	g.mu.Lock()
	g.held = append(g.held, messages...)
	g.mu.Unlock()
	g.flush()
	return nil
}

func (g *gathering) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return
	}
	for _, m := range g.held {
		g.took = append(g.took, m)
		m.Done(int64(len(g.took)), nil)
	}
	g.held = nil
}

func (g *gathering) set(away bool) {
	g.mu.Lock()
	g.away = away
	g.mu.Unlock()
	g.flush()
}

func (g *gathering) messages() []topic.Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]topic.Message(nil), g.took...)
}

// A running is an enforcer that serves in a test.
type running struct {
	*Enforcer
	t                       testing.TB
	blocklist, events, hits *gathering
	metrics                 *prometheus.Registry
	client                  *http.Client
	stop                    func()
}

func start(t testing.TB, set *blocklist.Set, change func(*Config)) *running {
	t.Helper()
	r := open(t, set, change)
	r.run()
	return r
}

// open returns an enforcer that does not serve yet.
func open(t testing.TB, set *blocklist.Set, change func(*Config)) *running {
	t.Helper()
	r := &running{t: t, blocklist: &gathering{}, events: &gathering{}, hits: &gathering{}, metrics: prometheus.NewRegistry(), client: &http.Client{Transport: &http.Transport{}}}
	c := Config{Set: set, Ruling: usualRuling(t), Listen: "127.0.0.1:0", Refusal: http.StatusTooManyRequests, Folder: t.TempDir(),
		Sinks: &Sinks{r.blocklist, r.events, r.hits}, EventsPartitions: 4, HitsPartitions: 16, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Metrics: r.metrics}
	c.Socket = filepath.Join(c.Folder, "weir.sock")
	if change != nil {
		change(&c)
	}
	var err error
	if r.Enforcer, err = Open(c); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *running) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		r.client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(r.stop)
	<-r.Serving()
}

// overSocket returns the client of a person on the machine.
func (r *running) overSocket() *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", r.config.Socket)
	}}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// An answer is the response to a request.
type answer struct {
	*http.Response
	status int
	body   string
}

func (a answer) read(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

// ask sends a request with headers, which are names and values.
func (r *running) ask(client *http.Client, method, path, body string, headers ...string) answer {
	r.t.Helper()
	q, err := http.NewRequest(method, "http://"+r.Address()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{response, response.StatusCode, string(text)}
}

func (r *running) get(path string, headers ...string) answer {
	r.t.Helper()
	return r.ask(r.client, http.MethodGet, path, "", headers...)
}

// checks sends a check like an edge for a client's request.
func (r *running) checks(ip string, more ...string) answer {
	r.t.Helper()
	return r.get("/v1/check", append([]string{"X-Forwarded-For", ip, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/"}, more...)...)
}

// keysFile returns a file with a key of each role, whose secret is the role's name.
func keysFile(t testing.TB) *keys.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	text := "keys:\n"
	for _, role := range []keys.Role{keys.Read, keys.Write, keys.Send, keys.Take, keys.Admin} {
		text += "  - {name: the-" + string(role) + ", role: " + string(role) + ", sha256: " + fmt.Sprintf("%x", sha256.Sum256([]byte(role))) + "}\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := keys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
