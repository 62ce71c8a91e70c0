package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/console"
	"weir/pkg/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// A stand is a console with an API that notes its requests.
type stand struct {
	t      *testing.T
	set    *blocklist.Set
	keys   string // the file of keys; empty without one
	url    string
	host   string
	client *http.Client
	config console.Config

	orders []string // requests of the API that change something
	answer func(w http.ResponseWriter, r *http.Request)

	answers map[string]string // of withRules, by path
}

const allKeys = `keys:
  - {name: ann, role: write, sha256: %x}
  - {name: rob, role: read, sha256: %x}
  - {name: edge, role: take, sha256: %x}
`

func newStand(t *testing.T, withKeys bool, entries ...*blocklist.Entry) *stand {
	t.Helper()
	s := &stand{t: t, set: list(t, entries...)}
	s.config = console.Config{
		Set: s.set, Rules: func() *rule.Set { return nil }, Refuses: func() bool { return true }, API: http.HandlerFunc(s.api), As: as,
		Admit: func(*http.Request) (string, error) { return "", nil }, Client: func(*http.Request) netip.Addr { return netip.MustParseAddr("127.0.0.1") },
		Version: "test", Logger: quiet,
	}
	if withKeys {
		s.keys = filepath.Join(t.TempDir(), "keys.yaml")
		s.writeKeys(allKeys)
		opened, err := keys.Open(s.keys)
		if err != nil {
			t.Fatal(err)
		}
		s.config.Keys = opened
		s.config.Admit = func(r *http.Request) (string, error) {
			key, err := opened.Admit(r, keys.Read)
			return key.Name, err
		}
	}
	return s
}

func (s *stand) writeKeys(text string) {
	s.t.Helper()
	if strings.Contains(text, "%x") {
		text = fmt.Sprintf(text, sha256.Sum256([]byte("ann's")), sha256.Sum256([]byte("rob's")), sha256.Sum256([]byte("edge's")))
	}
	if err := os.WriteFile(s.keys, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// start serves the console.
func (s *stand) start() *stand {
	s.t.Helper()
	mux := http.NewServeMux()
	console.New(s.config).Handle(mux)
	server := httptest.NewServer(mux)
	s.t.Cleanup(server.Close)
	s.url, s.host = server.URL, strings.TrimPrefix(server.URL, "http://")
	jar, _ := cookiejar.New(nil)
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s
}

type asKey struct{}

func as(ctx context.Context, name string, role keys.Role) context.Context {
	return context.WithValue(ctx, asKey{}, name+" "+string(role))
}

func (s *stand) api(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		body, _ := io.ReadAll(r.Body)
		caller, _ := r.Context().Value(asKey{}).(string)
		s.orders = append(s.orders, fmt.Sprintf("%s %s %s by %s", r.Method, r.URL.RequestURI(), body, caller))
	}
	if s.answer == nil {
		http.NotFound(w, r)
		return
	}
	s.answer(w, r)
}

// get asks for a page.
func (s *stand) get(path string) (status int, body string, header http.Header) {
	s.t.Helper()
	return s.do(http.MethodGet, path, nil, nil)
}

// post sends a form as the console's pages do.
func (s *stand) post(path string, form url.Values, fields ...string) (status int, body string, header http.Header) {
	s.t.Helper()
	return s.do(http.MethodPost, path, form, append([]string{"Origin", s.url}, fields...))
}

func (s *stand) do(method, path string, form url.Values, fields []string) (status int, body string, header http.Header) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(fields); i += 2 {
		if r.Header.Set(fields[i], fields[i+1]); fields[i+1] == "" {
			r.Header.Del(fields[i])
		}
	}
	answer, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

// login logs in with a key.
func (s *stand) login(key string) (status int, body string, header http.Header) {
	s.t.Helper()
	return s.post("/console/login", url.Values{"key": {key}, "next": {"/console/?q=1"}})
}

var tokenOf = regexp.MustCompile(`name="token" value="([0-9a-f]+)"`)

// token returns the token of the forms of a page.
func (s *stand) token() string {
	s.t.Helper()
	_, body, _ := s.get("/console/")
	found := tokenOf.FindStringSubmatch(body)
	if found == nil {
		s.t.Fatalf("the page has no token: %s", body)
	}
	return found[1]
}

func verdict(rule, key string, fields map[string]string) *blocklist.Entry {
	now := time.Now().UnixMilli()
	return &blocklist.Entry{ID: blocklist.ID(rule, key, now, 1), Rule: rule, Key: key, Fields: fields, From: now - 1000, Until: now + 600_000,
		Decided: now - 900, Limit: "10/min", Count: 11, Level: 1, By: "weir"}
}

func ofIP(key string) *blocklist.Entry { return verdict("per-ip", key, map[string]string{"ip": key}) }

func changeOf(t testing.TB, offset int64, e *blocklist.Entry) blocklist.Change {
	t.Helper()
	value, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return blocklist.Change{Offset: offset, Key: blocklist.RecordKey(e.Rule, e.Key), Value: value}
}

// list returns a complete list with the entries.
func list(t testing.TB, entries ...*blocklist.Entry) *blocklist.Set {
	t.Helper()
	set := blocklist.NewSet(blocklist.Limits{})
	filling, now := set.Fill(), time.Now().UnixMilli()
	for i, e := range entries {
		if err := filling.Apply(now, changeOf(t, int64(i), e)); err != nil {
			t.Fatal(err)
		}
	}
	filling.Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "test", Epoch: 1}, Offset: int64(len(entries))}, Whole: true, AsOf: now}, now)
	return set
}

func asJSON(t testing.TB, what any) string {
	t.Helper()
	text, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
