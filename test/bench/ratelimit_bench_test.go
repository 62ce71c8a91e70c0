package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"weir/internal/store/redis/redistest"
	"weir/test/port"
)

// rateLimitModule is Envoy's rate limit service. It is built into the cache folder, and is no dependency of Weir.
const rateLimitModule, rateLimitVersion = "github.com/envoyproxy/ratelimit/src/service_cmd", "v1.4.1-0.20260122083618-3fb702589d36"

// A rateLimiter is a program that answers ShouldRateLimit with counts in Redis.
type rateLimiter struct {
	name  string
	start func(b *testing.B, redis *redistest.Server, perHour int) (address string, command *exec.Cmd)
}

var rateLimiters = []rateLimiter{
	{"weir", limitWithWeir("sliding", "both")},
	{"weir-fixed", limitWithWeir("fixed", "none")},
	{"ratelimit", limitWithRateLimit()},
	{"ratelimit-tuned", limitWithRateLimit("REDIS_PIPELINE_WINDOW=150us", "REDIS_PIPELINE_LIMIT=16", "LOCAL_CACHE_SIZE_IN_BYTES=10000000")},
	{"empty", limitNothing},
}

// limitWithWeir limits with an inline rule of that algorithm.
func limitWithWeir(algorithm, headers string) func(*testing.B, *redistest.Server, int) (string, *exec.Cmd) {
	return func(b *testing.B, redis *redistest.Server, perHour int) (string, *exec.Cmd) {
		folder, address := b.TempDir(), port.Reserve(b, "127.0.0.1")
		config := fmt.Sprintf(`
data: data
rules: [{name: quota, key: ip, limits: [%d/hour], algorithm: %s, inline: true}]
inline: {store: {redis: "redis://%s/0"}, budget: 1s}
collector: {listen: "", sources: [{file: access.log}]}
aggregator: {listen: ""}
enforcer: {listen: %q, grpc: %q, admin: "", limit_headers: %s}
`, perHour, algorithm, redis.Addr, port.Reserve(b, "127.0.0.1"), address, headers)
		if err := os.WriteFile(filepath.Join(folder, "weir.yaml"), []byte(config), 0o600); err != nil {
			b.Fatal(err)
		}
		program := filepath.Join(folder, "weir")
		if said, err := exec.Command("go", "build", "-o", program, "weir/cmd/weir").CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, said)
		}
		return address, child(folder, program, "run", "--config", "weir.yaml")
	}
}

// limitWithRateLimit limits with Envoy's own service.
func limitWithRateLimit(more ...string) func(*testing.B, *redistest.Server, int) (string, *exec.Cmd) {
	return func(b *testing.B, redis *redistest.Server, perHour int) (string, *exec.Cmd) {
		program, folder := rateLimitProgram(b), b.TempDir()
		if err := os.MkdirAll(filepath.Join(folder, "limits", "config"), 0o755); err != nil {
			b.Fatal(err)
		}
		limits := fmt.Sprintf("domain: bench\ndescriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: %d}}]\n", perHour)
		if err := os.WriteFile(filepath.Join(folder, "limits", "config", "limits.yaml"), []byte(limits), 0o600); err != nil {
			b.Fatal(err)
		}
		command := child(folder, program)
		address := port.Reserve(b, "127.0.0.1")
		command.Env = append(os.Environ(), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr, "REDIS_POOL_SIZE=16", "USE_STATSD=false",
			"RUNTIME_ROOT="+folder, "RUNTIME_SUBDIRECTORY=limits", "RUNTIME_WATCH_ROOT=false", "GRPC_HOST=127.0.0.1", "GRPC_PORT="+portOf(address))
		for _, name := range []string{"", "DEBUG_"} {
			command.Env = append(command.Env, name+"HOST=127.0.0.1", name+"PORT="+portOf(port.Reserve(b, "127.0.0.1")))
		}
		command.Env = append(command.Env, more...)
		return address, command
	}
}

// emptyAddress is where TestEmptyRateLimits listens, if it is asked to.
const emptyAddress = "WEIR_BENCH_EMPTY"

// limitNothing answers at once, without Redis: the least that a service of this library costs.
func limitNothing(b *testing.B, _ *redistest.Server, perHour int) (string, *exec.Cmd) {
	command := child(b.TempDir(), os.Args[0], "-test.run", "^TestEmptyRateLimits$", "-test.timeout", "0")
	address := port.Reserve(b, "127.0.0.1")
	command.Env = append(os.Environ(), emptyAddress+"="+address)
	if perHour < 100 {
		command.Env = append(command.Env, emptyAddress+"_REFUSES=1")
	}
	return address, command
}

type emptyRateLimits struct {
	ratelimit.UnimplementedRateLimitServiceServer
	code ratelimit.RateLimitResponse_Code
}

func (e emptyRateLimits) ShouldRateLimit(context.Context, *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	return &ratelimit.RateLimitResponse{OverallCode: e.code}, nil
}

// TestEmptyRateLimits is a process of BenchmarkRateLimit.
func TestEmptyRateLimits(t *testing.T) {
	address := os.Getenv(emptyAddress)
	if address == "" {
		return
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	service := emptyRateLimits{code: ratelimit.RateLimitResponse_OK}
	if os.Getenv(emptyAddress+"_REFUSES") != "" {
		service.code = ratelimit.RateLimitResponse_OVER_LIMIT
	}
	server := grpc.NewServer(grpc.NumStreamWorkers(128))
	ratelimit.RegisterRateLimitServiceServer(server, service)
	_ = server.Serve(listener)
}

func portOf(address string) string {
	_, number, _ := net.SplitHostPort(address)
	return number
}

// rateLimitProgram builds Envoy's service, once.
func rateLimitProgram(b *testing.B) string {
	b.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		b.Skipf("ratelimit is not measured: %v", err)
	}
	folder := filepath.Join(cache, "weir", "peers", rateLimitVersion)
	program := filepath.Join(folder, "service_cmd")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	command := exec.Command("go", "install", rateLimitModule+"@"+rateLimitVersion)
	command.Env = append(os.Environ(), "GOBIN="+folder)
	if said, err := command.CombinedOutput(); err != nil {
		b.Skipf("ratelimit is not measured: it cannot be built: %s", strings.ReplaceAll(strings.TrimSpace(string(said)), "\n", "; "))
	}
	return program
}

// A limitCase is what is asked: so many keys, and how often each may come in an hour.
type limitCase struct {
	name    string
	keys    int
	perHour int
	refused bool // nearly all
}

var limitCases = []limitCase{
	{"many-keys", 50_000, 1000, false},
	{"one-key", 1, 1_000_000_000, false},
	{"one-key-refused", 1, 10, true},
}

const limitTurn, limitTurns, limitCallers, limitConnections = 20_000, 5, 64, 2

// BenchmarkRateLimit compares Weir with Envoy's rate limit service: the same calls of ShouldRateLimit, with one Redis. The
// contenders take turns, so that other load affects all. It reports medians of the turns.
func BenchmarkRateLimit(b *testing.B) {
	debug.SetGCPercent(400) // of the client
	for _, c := range limitCases {
		b.Run(c.name, func(b *testing.B) { c.measure(b) })
	}
}

// A limitContender is a running rateLimiter, and the figures of its turns: CPU s per million of its process and of Redis,
// and requests a second.
type limitContender struct {
	running
	name       string
	clients    []ratelimit.RateLimitServiceClient
	own, redis []float64
	speed      []float64
}

func (c limitCase) measure(b *testing.B) {
	redis := redistest.Start(b)
	requests := make([]*ratelimit.RateLimitRequest, c.keys)
	for i := range requests {
		requests[i] = &ratelimit.RateLimitRequest{Domain: "bench", Descriptors: []*descriptor.RateLimitDescriptor{
			{Entries: []*descriptor.RateLimitDescriptor_Entry{{Key: "remote_address", Value: fmt.Sprintf("198.%d.%d.%d", 18+i>>16, i>>8&0xff, i&0xff)}}},
		}}
	}
	var contenders []*limitContender
	for _, one := range rateLimiters {
		contender := &limitContender{name: one.name}
		address, command := one.start(b, redis, c.perHour)
		contender.add(b, command)
		b.Cleanup(contender.stop)
		for range limitConnections {
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { conn.Close() })
			contender.clients = append(contender.clients, ratelimit.NewRateLimitServiceClient(conn))
		}
		contender.await(b, requests[0])
		contenders = append(contenders, contender)
	}

	for turn := range limitTurns {
		for _, contender := range contenders {
			contender.turn(b, c, redis, requests, turn > 0)
		}
	}
	for _, contender := range contenders {
		b.Run(contender.name, func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(contender.own), "cpu-s/million")
			b.ReportMetric(median(contender.redis), "redis-cpu-s/million")
			b.ReportMetric(median(contender.speed), "requests/s")
		})
	}
}

// await waits until the contender answers.
func (l *limitContender) await(b *testing.B, request *ratelimit.RateLimitRequest) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		l.alive(b)
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		_, err := l.clients[0].ShouldRateLimit(ctx, request)
		cancel()
		if err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			b.Fatalf("%s does not answer: %v", l.name, err)
		}
	}
}

// turn makes the calls of a turn. The first is not counted.
func (l *limitContender) turn(b *testing.B, c limitCase, redis *redistest.Server, requests []*ratelimit.RateLimitRequest, counts bool) {
	own, ofRedis, began := l.processorSeconds(b), redis.CPU(), time.Now()
	var running sync.WaitGroup
	for caller := range limitCallers {
		running.Go(func() {
			client, wrong := l.clients[caller%len(l.clients)], 0
			for n := range limitTurn / limitCallers {
				said, err := client.ShouldRateLimit(context.Background(), requests[(caller*limitTurn/limitCallers+n*7919)%len(requests)])
				if err != nil {
					b.Errorf("%s: %v", l.name, err)
					return
				}
				if said.GetOverallCode() == ratelimit.RateLimitResponse_OVER_LIMIT != c.refused {
					wrong++
				}
			}
			if wrong > 10 {
				b.Errorf("%s: %d of %d answers are wrong", l.name, wrong, limitTurn/limitCallers)
			}
		})
	}
	running.Wait()
	took := time.Since(began).Seconds()
	if !counts {
		return
	}
	l.own = append(l.own, (l.processorSeconds(b)-own)/limitTurn*1e6)
	l.redis = append(l.redis, (redis.CPU()-ofRedis).Seconds()/limitTurn*1e6)
	l.speed = append(l.speed, limitTurn/took)
}
