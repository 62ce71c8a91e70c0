// Package envoy answers the questions of Envoy, and of all that speak its protocols, over gRPC: the rate limit service and
// external authorization. The decisions are those of pkg/enforcer, which also counts them.
//
// Open starts nothing; Run serves until its context is done, and waits for the calls that have begun. Each connection has
// two goroutines, and each call has one.
//
// Bounds: connections, in total and for one address without a key, as package limited has them; calls of one connection,
// of one address and in total; streams that stay open; large headers together; the bytes and the frames of a message; and
// what a client may send of a call before it is read. A call has to arrive, and to be answered, within callPatience. Calls
// wait for a place, since Envoy lets a request pass whose call fails. If too many wait, or one address has too many, a
// call is answered Unavailable when its header has arrived. A call that panics is answered Unavailable too.
//
// A client may leave its messages unfinished, and its answers untaken. So at most maxUnread calls wait for their message;
// when there are more, the oldest one ends. At most maxUnsent answers wait for their client, each no longer than
// limited.WritePatience; when there are more, the connection of the oldest one is closed.
package envoy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"weir/internal/keys"
	"weir/internal/limited"
	"weir/internal/origin"
	"weir/internal/telemetry"
	"weir/pkg/enforcer"
)

// Bounds for unknown clients.
const (
	maxConnections = 2_000
	maxPerAddress  = 1_000 // without a key
	maxStreams     = 100   // calls at once in one connection; Envoy opens further ones
	streamWorkers  = 128   // goroutines that serve one call after the other; new ones would let their stacks grow each time
	maxCalls       = 4_096 // calls at once
	maxWaiting     = 16_384
	maxCallsOf     = 2_048 // of one address without a key, those that wait included
	maxWatches     = 256   // of them that stay open
	maxUnread      = 512   // calls whose message has not arrived completely; others take their places
	maxUnsent      = 2_048 // answers that clients have not taken
	maxFrames      = 1_024 // of the messages of a call
	// headerBytes is more than the 60 KiB that Envoy accepts from a client: with tracing, it passes on tracestate.
	headerBytes = 72 << 10
	keyBytes    = 4 << 10  // of a header that may have a key
	freeHeader  = 4 << 10  // the weight of a small header
	maxHeaders  = 64 << 20 // the weight of all large headers of open calls
	fieldWeight = 128      // what a field takes in memory besides its bytes
	// messageBytes is more than twice the 60 KiB that Envoy accepts from a client: it sends the path of a request twice.
	// When a call fails because it is too long, Envoy lets the client through.
	messageBytes = 256 << 10
	// streamWindow is what a client may send of a call before the call is read. It is fixed: the library's own grows up to
	// 16 MiB, for all calls of a connection. The window of a connection bounds its speed only, and takes no memory.
	streamWindow      = 64 << 10
	connectionWindow  = 1 << 20
	callPatience      = 10 * time.Second
	handshakePatience = limited.HeaderPatience
	idlePatience      = 150 * time.Second
	pingAfter         = time.Minute
	pingPatience      = 20 * time.Second
	pingsApart        = 5 * time.Second // of a client
	drainPatience     = 5 * time.Second
)

// Config configures the calls.
type Config struct {
	Decide Decider
	// Listen is the address. Beyond loopback it needs keys or client certificates.
	Listen string
	TLS    *tls.Config // nil: not encrypted
	Keys   *keys.File  // nil: every client that can connect may ask

	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// A Decider makes the decisions. It is an enforcer.Enforcer, except in tests.
type Decider interface {
	Admit(r *http.Request, want keys.Role) (by string, err error)
	CheckFor(w http.ResponseWriter, q *enforcer.EdgeRequest)
	Limit(w http.ResponseWriter, parts []enforcer.Part, answers []enforcer.PartAnswer) error
}

// A method is what is known of one before its calls begin.
type method struct {
	watch  bool // its calls stay open
	counts *doorCounts
}

// A Server answers calls.
type Server struct {
	config  Config
	grpc    *grpc.Server
	health  *health.Server
	calls   *calls
	metrics *metrics
	faults  *telemetry.Faults
	methods map[string]method
	address string // valid once serving is closed
	serving chan struct{}
	ending  context.Context // done when the server ends; streams that stay open have it
	end     context.CancelFunc
}

// Open makes a Server.
func Open(c Config) (*Server, error) {
	if c.Keys == nil && !keys.AsksCertificates(c.TLS) && !origin.IsLoopback(c.Listen) {
		return nil, fmt.Errorf("listening on %s: other machines can reach it without authentication; give keys or client certificates, or listen on 127.0.0.1", c.Listen)
	}
	s := &Server{config: c, calls: newCalls(), health: health.NewServer(), metrics: newMetrics(c.Metrics), faults: telemetry.NewFaults(c.Logger),
		methods: map[string]method{}, serving: make(chan struct{})}
	s.ending, s.end = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(
		grpc.Creds(newHandshake(c.TLS, s.calls)), grpc.ForceServerCodecV2(newCodec()), grpc.ConnectionTimeout(handshakePatience), grpc.InTapHandle(s.arrives), grpc.WaitForHandlers(true), grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow), grpc.ReadBufferSize(0), // framed has a buffer
		grpc.MaxRecvMsgSize(messageBytes), grpc.MaxHeaderListSize(headerBytes), grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idlePatience, Time: pingAfter, Timeout: pingPatience}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsApart, PermitWithoutStream: true}),
	)

	s.register(&ratelimit.RateLimitService_ServiceDesc, rateLimits{s}, "ratelimit", keys.Take)
	s.register(&auth.Authorization_ServiceDesc, authorization{s}, "authorization", "")
	s.register(&grpc_health_v1.Health_ServiceDesc, s.health, "health", "")
	reflection.Register(registrar{s})
	s.setHealth(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	return s, nil
}

// registrar registers further services of the library.
type registrar struct{ *Server }

// RegisterService registers a service.
func (r registrar) RegisterService(d *grpc.ServiceDesc, impl any) {
	r.register(d, impl, "reflection", "")
}

// GetServiceInfo returns what is registered.
func (r registrar) GetServiceInfo() map[string]grpc.ServiceInfo { return r.grpc.GetServiceInfo() }

// Ready reports by the health service that calls are answered as they should be; until then it reports the contrary.
func (s *Server) Ready() { s.setHealth(grpc_health_v1.HealthCheckResponse_SERVING) }

func (s *Server) setHealth(status grpc_health_v1.HealthCheckResponse_ServingStatus) {
	for _, service := range []string{"", ratelimit.RateLimitService_ServiceDesc.ServiceName, auth.Authorization_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(service, status)
	}
}

// Run serves until the context is done, and then finishes the calls that have begun.
func (s *Server) Run(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Listen)
	if err != nil {
		return fmt.Errorf("listening for gRPC: %w", limited.InUse(err, "enforcer.grpc"))
	}
	s.address = l.Addr().String()
	close(s.serving)
	bounded := limited.Listen(l, limited.Bounds{Connections: maxConnections, PerAddress: maxPerAddress}, func(why error) { s.faults.Note("connections", why) })
	s.config.Logger.Info("serves gRPC", "address", s.address)
	ended := make(chan error, 1)
	go func() { ended <- s.grpc.Serve(bounded) }()
	var closing sync.WaitGroup
	defer closing.Wait()
	whileServing, done := context.WithCancel(context.Background())
	defer done()
	closing.Go(func() { s.closeSlow(whileServing) })

	select {
	case err = <-ended:
		return fmt.Errorf("serving gRPC on %s: %w", s.address, err)
	case <-ctx.Done():
	}

	// Streams that watch the health end here; calls have their time.
	s.health.Shutdown()
	stop := time.AfterFunc(drainPatience, s.grpc.Stop)
	defer stop.Stop()
	s.end()
	s.grpc.GracefulStop()
	if err := <-ended; !errors.Is(err, grpc.ErrServerStopped) { // that is when it had not begun yet
		return err
	}
	return nil
}

// Serving returns a channel that is closed once the server listens.
func (s *Server) Serving() <-chan struct{} { return s.serving }

// Address returns the address of the listener, once Run has opened it.
func (s *Server) Address() string {
	<-s.serving
	return s.address
}

// register registers a service. Its methods all become streams for the library, because only those are asked before their
// message is read; on the connection there is no difference.
func (s *Server) register(d *grpc.ServiceDesc, impl any, door string, role keys.Role) {
	counts, guarded := s.metrics.door(door), *d
	guarded.Methods, guarded.Streams = nil, slices.Clone(d.Streams)
	for i := range guarded.Streams {
		one := &guarded.Streams[i]
		s.methods["/"+d.ServiceName+"/"+one.StreamName] = method{watch: true, counts: counts}
		one.Handler = s.guard(door, role, counts, one.Handler)
	}
	for _, one := range d.Methods {
		s.methods["/"+d.ServiceName+"/"+one.MethodName] = method{counts: counts}
		guarded.Streams = append(guarded.Streams, grpc.StreamDesc{StreamName: one.MethodName, Handler: s.guard(door, role, counts, unary(one))})
	}
	s.grpc.RegisterService(&guarded, impl)
}

// unary handles a call of one message and one answer.
func unary(method grpc.MethodDesc) grpc.StreamHandler {
	return func(impl any, stream grpc.ServerStream) error {
		answer, err := method.Handler(impl, stream.Context(), stream.RecvMsg, nil)
		if err != nil {
			return err
		}
		return stream.SendMsg(answer)
	}
}
