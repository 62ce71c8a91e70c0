package envoy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"weir/pkg/enforcer"
	"weir/pkg/rule"
)

// canned answers at once, and always the same.
type canned struct {
	ratelimit.UnimplementedRateLimitServiceServer
	auth.UnimplementedAuthorizationServer
	limit *ratelimit.RateLimitResponse
	check *auth.CheckResponse
}

func (c canned) ShouldRateLimit(context.Context, *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	return c.limit, nil
}

func (c canned) Check(context.Context, *auth.CheckRequest) (*auth.CheckResponse, error) {
	return c.check, nil
}

// serve serves them with the library's usual settings, and returns a connection.
func (c canned) serve(b *testing.B) *grpc.ClientConn {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer()
	ratelimit.RegisterRateLimitServiceServer(server, c)
	auth.RegisterAuthorizationServer(server, c)
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

// BenchmarkCalls compares calls of both services with the same calls of empty ones: a server of the library without any
// settings, whose answers are empty. Each has one connection with 16 calls at once. It alternates between them, so that
// other load on the machine affects both. All requests pass: they are of 5,000 clients in turn.
func BenchmarkCalls(b *testing.B) {
	limits, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: quota, key: ip, limits: [100/s, 4000/min], inline: true}]"))
	if err != nil {
		b.Fatal(err)
	}
	none, _, _ := rule.Parse("rules.yaml", []byte("rules: [{name: per-ip, key: ip, limits: [10/min]}]"))
	with := func(rules *rule.Set) *grpc.ClientConn {
		return start(b, func(of *enforcer.Config, c *Config) {
			of.Logger, c.Logger, of.Ruling.Rules = slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler), rules
		}).conn
	}
	const clients = 5000
	var checks [clients]*auth.CheckRequest
	var asks [clients]*ratelimit.RateLimitRequest
	for i := range clients {
		ip := fmt.Sprintf("203.0.%d.%d", i/250, i%250)
		checks[i] = checkOf(ip, "/a?b", "user-agent", "Mozilla/5.0 (X11; Linux x86_64)", "x-forwarded-for", ip)
		asks[i] = &ratelimit.RateLimitRequest{Domain: "weir", Descriptors: []*descriptorOf{describe("remote_address", ip, "path", "/a?b", "method", "GET")}}
	}
	check := func(conn *grpc.ClientConn) func(n int) error {
		client := auth.NewAuthorizationClient(conn)
		return func(n int) error {
			said, err := client.Check(context.Background(), checks[n%clients])
			if err == nil && said.GetStatus().GetCode() != 0 {
				err = fmt.Errorf("%v", said)
			}
			return err
		}
	}
	ask := func(conn *grpc.ClientConn) func(n int) error {
		client := ratelimit.NewRateLimitServiceClient(conn)
		return func(n int) error {
			said, err := client.ShouldRateLimit(context.Background(), asks[n%clients])
			if err == nil && said.GetOverallCode() != ratelimit.RateLimitResponse_OK {
				err = fmt.Errorf("%v", said)
			}
			return err
		}
	}

	limited, free := with(limits), with(none)
	empty := canned{limit: &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}, check: &auth.CheckResponse{Status: &rpc.Status{}}}.serve(b)
	var same canned
	same.limit, err = ratelimit.NewRateLimitServiceClient(limited).ShouldRateLimit(b.Context(), asks[0])
	if err == nil {
		same.check, err = auth.NewAuthorizationClient(limited).Check(b.Context(), checks[0])
	}
	if err != nil {
		b.Fatal(err)
	}
	alike := same.serve(b)
	turns := []struct {
		name   string
		ask    func(n int) error
		nextTo int
		took   time.Duration // of the processors
	}{
		{name: "empty-check", ask: check(empty)}, {name: "check", ask: check(free)}, {name: "check-with-limits", ask: check(limited)}, {name: "canned-check", ask: check(alike)},
		{name: "empty-limit", ask: ask(empty), nextTo: 4}, {name: "limit", ask: ask(limited), nextTo: 4}, {name: "canned-limit", ask: ask(alike), nextTo: 4},
	}
	const turn, atOnce = 1600, 16
	asked := 0
	for b.Loop() {
		for i := range turns {
			began := processors()
			var running sync.WaitGroup
			for worker := range atOnce {
				running.Go(func() {
					for n := range turn / atOnce {
						if err := turns[i].ask(asked + worker*turn/atOnce + n); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			running.Wait()
			turns[i].took += processors() - began
		}
		asked += turn
	}
	for _, t := range turns {
		b.ReportMetric(float64(turns[t.nextTo].took)/float64(t.took), t.name+"-of-empty")
		b.ReportMetric(float64(t.took.Microseconds())/float64(b.N*turn), t.name+"-µs")
	}
}

// processors returns the time of the processors that this process has used.
func processors() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
