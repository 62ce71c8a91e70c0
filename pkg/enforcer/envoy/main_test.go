package envoy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"weir/internal/keys"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer"
	"weir/pkg/request"
	"weir/pkg/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rules = `
rules:
  - {name: by-ip, key: ip, limits: [3/min, 100/hour], inline: true}
  - {name: by-tenant, key: tenant, limits: [5/10min], inline: true}
  - {name: login, key: user, limits: [2/min], match: 'path == "/login"', inline: true}
  - {name: watched, key: [ip, agent], limits: [1/min], inline: true, mode: shadow}
  - {name: tokens, key: model, limits: [1000/hour], match: 'path == "never"', inline: true}
  - {name: sized, key: size, limits: [9/min], cost: int(user), inline: true}
  - {name: exports, key: export, limits: [2 at once], lease: 1m, inline: true}
  - {name: per-ip, key: ip, limits: [10/min]}
allow: [{ip: 192.0.2.0/24}]
`

// A site is an enforcer and its server for gRPC.
type site struct {
	*Server
	t       testing.TB
	set     *blocklist.Set
	metrics *prometheus.Registry
	conn    *grpc.ClientConn
	stop    func()
}

func start(t testing.TB, change func(*enforcer.Config, *Config)) *site {
	t.Helper()
	s := &site{t: t, set: blocklist.NewSet(blocklist.Limits{}), metrics: prometheus.NewRegistry()}
	now := time.Now().UnixMilli()
	s.set.Fill().Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "test", Epoch: 1}}, Whole: true, AsOf: now}, now)
	parsed, _, err := rule.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	of := enforcer.Config{Set: s.set, Refusal: http.StatusTooManyRequests, Folder: t.TempDir(), Logger: logger, Metrics: s.metrics,
		Ruling: enforcer.Ruling{Rules: parsed, Header: "X-Forwarded-For", Fields: map[string]string{"user": "X-User"}, RequestID: "X-Weir-Request",
			Client: request.NewClient([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})}}
	c := Config{Listen: "127.0.0.1:0", Logger: logger, Metrics: s.metrics}
	if change != nil {
		change(&of, &c)
	}
	e, err := enforcer.Open(of)
	if err != nil {
		t.Fatal(err)
	}
	if c.Decide == nil {
		c.Decide = e
	}
	if s.Server, err = Open(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	s.conn = s.dial(insecure.NewCredentials())
	return s
}

// keysFile returns a file with a key of each role, whose secret is the role's name.
func keysFile(t testing.TB) *keys.File {
	t.Helper()
	text := "keys:\n"
	for _, role := range []keys.Role{keys.Read, keys.Take} {
		text += fmt.Sprintf("  - {name: the-%s, role: %[1]s, sha256: %x}\n", role, sha256.Sum256([]byte(role)))
	}
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := keys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// order sends a command, which is active at once.
func (s *site) order(kind blocklist.Kind, target string) {
	s.t.Helper()
	scope, value, err := blocklist.ParseTarget(target)
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	o := &blocklist.Order{ID: fmt.Sprint(kind, target), Kind: kind, Scope: scope, Value: value, From: now, Until: now + 600_000, By: "test", Why: "test"}
	if err := s.set.Order(o, now); err != nil {
		s.t.Fatal(err)
	}
}

// describe makes a descriptor of names and values.
func describe(entries ...string) *descriptor.RateLimitDescriptor {
	d := &descriptor.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &descriptor.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return d
}

func (s *site) limit(asked *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	return ratelimit.NewRateLimitServiceClient(s.conn).ShouldRateLimit(s.t.Context(), asked)
}

// limits asks for descriptors.
func (s *site) limits(all ...*descriptor.RateLimitDescriptor) *ratelimit.RateLimitResponse {
	s.t.Helper()
	said, err := s.limit(&ratelimit.RateLimitRequest{Domain: "test", Descriptors: all})
	if err != nil {
		s.t.Fatal(err)
	}
	return said
}
