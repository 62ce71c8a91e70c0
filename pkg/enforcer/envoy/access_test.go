package envoy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"weir/internal/keys"
	"weir/pkg/enforcer"
	"weir/test/locked"
	"weir/test/wait"
)

func TestKeys(t *testing.T) {
	s := start(t, func(of *enforcer.Config, c *Config) {
		of.Keys = keysFile(t)
		c.Keys = of.Keys
	})
	for _, test := range []struct {
		name, value string
		want        codes.Code
	}{
		{"x", "", codes.Unauthenticated}, {"authorization", "Bearer unknown", codes.Unauthenticated}, {"authorization", "Bearer read", codes.PermissionDenied},
		{"authorization", "Bearer take", codes.OK}, {"x-api-key", "take", codes.OK},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), test.name, test.value)
		_, err := ratelimit.NewRateLimitServiceClient(s.conn).ShouldRateLimit(ctx, &ratelimit.RateLimitRequest{Descriptors: []*descriptorOf{describe("tenant", "a")}})
		if status.Code(err) != test.want {
			t.Errorf("%s %s: %v, want %v", test.name, test.value, err, test.want)
		}
	}
	s.check(checkOf("203.0.113.7", "/")) // as over HTTP, checks need none
}

func TestOpenRefusesToListenWithoutAuthentication(t *testing.T) {
	_, err := Open(Config{Listen: "0.0.0.0:0", Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "give keys or client certificates") {
		t.Errorf("%v", err)
	}
}

// Certificates are those that the settings have when a client connects.
func TestTLS(t *testing.T) {
	of, roots := certificate(t)
	var now atomic.Pointer[tls.Config]
	set := func() { now.Store(&tls.Config{Certificates: []tls.Certificate{of}}) }
	set()
	s := start(t, func(_ *enforcer.Config, c *Config) {
		c.TLS = now.Load().Clone()
		c.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return now.Load(), nil }
	})
	ask := func(roots *x509.CertPool) (*peer.Peer, error) {
		conn, from := s.dial(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "localhost"})), &peer.Peer{}
		defer conn.Close()
		_, err := auth.NewAuthorizationClient(conn).Check(t.Context(), checkOf("203.0.113.7", "/"), grpc.Peer(from))
		return from, err
	}
	if _, err := ask(roots); err != nil {
		t.Fatal(err)
	}
	before := roots
	of, roots = certificate(t)
	set()
	if _, err := ask(roots); err != nil {
		t.Error(err)
	}
	if _, err := ask(before); status.Code(err) != codes.Unavailable {
		t.Errorf("with the former certificate: %v", err)
	}
	if _, err := auth.NewAuthorizationClient(s.conn).Check(t.Context(), checkOf("203.0.113.7", "/")); status.Code(err) != codes.Unavailable {
		t.Errorf("not encrypted: %v", err)
	}
}

func TestClientCertificates(t *testing.T) {
	of, roots := certificate(t)
	client, clients := certificate(t)
	s := start(t, func(e *enforcer.Config, c *Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{of}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
		e.TLS = c.TLS
	})
	for _, certificates := range [][]tls.Certificate{nil, {of}, {client}} {
		conn := s.dial(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "localhost", Certificates: certificates}))
		_, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &ratelimit.RateLimitRequest{Descriptors: []*descriptorOf{describe("tenant", "a")}})
		good := len(certificates) > 0 && &certificates[0].Certificate[0][0] == &client.Certificate[0][0]
		if want := map[bool]codes.Code{true: codes.OK, false: codes.Unavailable}[good]; status.Code(err) != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// broken panics, or fails, where it should decide.
type broken struct{ with any }

func (b broken) Admit(*http.Request, keys.Role) (string, error) { return "", nil }

func (b broken) CheckFor(w http.ResponseWriter, _ *enforcer.EdgeRequest) {
	if b.with != nil {
		panic(b.with)
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

func (b broken) Limit(w http.ResponseWriter, _ []enforcer.Part, _ []enforcer.PartAnswer) error {
	b.CheckFor(w, nil)
	return nil
}

func TestErrorsAreUnavailable(t *testing.T) {
	for _, with := range []any{nil, "a mistake", errors.New("an error")} {
		said := &locked.Buffer{}
		s := start(t, func(_ *enforcer.Config, c *Config) {
			c.Decide, c.Logger = broken{with}, slog.New(slog.NewTextHandler(said, nil))
		})
		_, err := auth.NewAuthorizationClient(s.conn).Check(t.Context(), checkOf("203.0.113.7", "/"))
		_, other := s.limit(&ratelimit.RateLimitRequest{Descriptors: []*descriptorOf{describe("tenant", "a")}})
		if status.Code(err) != codes.Unavailable || status.Code(other) != codes.Unavailable {
			t.Errorf("%v: %v, %v", with, err, other)
		}
		if with != nil && !strings.Contains(said.String(), "calls_test.go") && !strings.Contains(said.String(), "access_test.go") {
			t.Errorf("the log does not say where: %s", said)
		}
	}
}

func TestHealthAndReflection(t *testing.T) {
	s := start(t, nil)
	health := grpc_health_v1.NewHealthClient(s.conn)
	status := func(service string) string {
		said, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			return err.Error()
		}
		return said.GetStatus().String()
	}
	if got := status(""); got != "NOT_SERVING" {
		t.Errorf("before there is a list: %s", got)
	}
	watch, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	s.Ready()
	for _, service := range []string{"", "envoy.service.ratelimit.v3.RateLimitService", "envoy.service.auth.v3.Authorization"} {
		if got := status(service); got != "SERVING" {
			t.Errorf("%s: %s", service, got)
		}
	}

	reflect, err := grpc_reflection_v1.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context())
	if err == nil {
		err = reflect.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	}
	said, err2 := reflect.Recv()
	if err != nil || err2 != nil || len(said.GetListServicesResponse().GetService()) < 4 {
		t.Errorf("%v, %v, %v", said, err, err2)
	}
	_ = reflect.CloseSend()
	if _, err := reflect.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}

	s.stop() // the stream that watches does not hold it up
	for {
		if _, err := watch.Recv(); err != nil {
			break
		}
	}
}

// Calls whose message does not come make room for others.
func TestSilentCallsMakeRoom(t *testing.T) {
	s := start(t, nil)
	desc := &grpc.StreamDesc{StreamName: "Check", ClientStreams: true}
	var conns []*grpc.ClientConn
	var streams []grpc.ClientStream
	for n := range maxCalls + maxStreams {
		if n%maxStreams == 0 {
			conns = append(conns, s.dial(insecure.NewCredentials()))
		}
		stream, err := conns[len(conns)-1].NewStream(t.Context(), desc, auth.Authorization_Check_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	wait.Until(t, "the last ones have begun", func() bool { return s.running() == maxUnread })
	if _, err := auth.NewAuthorizationClient(s.conn).Check(t.Context(), checkOf("203.0.113.7", "/")); err != nil {
		t.Error(err)
	}
	if err := streams[0].RecvMsg(&auth.CheckResponse{}); status.Code(err) != codes.Canceled {
		t.Errorf("the oldest one ends with %v", err)
	}
}

func (s *Server) running() int {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	return s.calls.all
}

func TestASilentCallEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	t.Parallel()
	s := start(t, nil)
	stream, err := s.conn.NewStream(t.Context(), &grpc.StreamDesc{StreamName: "Check", ClientStreams: true}, auth.Authorization_Check_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&auth.CheckResponse{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
}

// Calls of one address without a key leave places to others.
func TestCallsOfOneAddress(t *testing.T) {
	c, conn, stream := newCalls(), func(from string) *connection { return &connection{from: addressOf(from)} }, uint32(0)
	enter := func(on *connection, watch bool) bool {
		stream++
		return c.enter(&call{on: on, stream: stream, watch: watch})
	}
	one, known, loopback := conn("203.0.113.7"), conn("203.0.113.7"), conn("")
	for n := range maxCallsOf {
		if !enter(one, false) {
			t.Fatal(n)
		}
	}
	c.knows(known)
	if enter(one, false) || !enter(known, false) || !enter(conn("203.0.113.8"), false) || !enter(loopback, false) {
		t.Error("the bound of one address is not its own")
	}
	for _, of := range []uint32{1, 2, 2} { // the known one counts too
		c.gone(one, of)
	}
	if !enter(one, false) || enter(one, false) {
		t.Error("a place was not given back, or twice")
	}
	for n := range maxWatches {
		if !enter(loopback, true) {
			t.Fatal(n)
		}
	}
	if enter(loopback, true) || !enter(loopback, false) {
		t.Error("the streams that stay open have no bound of their own")
	}

	heavy := func() *call {
		stream++
		return &call{on: loopback, stream: stream, weight: maxHeaders/2 + 1}
	}
	if first := heavy(); !c.enter(first) || c.enter(heavy()) || !enter(loopback, false) {
		t.Error("large headers have no bound of their own")
	} else if c.gone(loopback, first.stream); !c.enter(heavy()) {
		t.Error("the room of a large header was not given back")
	}
	for c.all < maxCalls+maxWaiting {
		if !enter(loopback, false) {
			t.Fatal(c.all)
		}
	}
	if enter(loopback, false) {
		t.Error("any number of calls may wait")
	}
	for stream := range stream {
		for _, on := range []*connection{one, known, loopback} {
			c.gone(on, stream+1)
		}
	}
	if c.all > 1 || c.headers != 0 || c.watches != 0 || len(c.of) > 1 { // that of the connection without a name
		t.Errorf("calls are left: %d, %d watches, %d bytes of headers, %v", c.all, c.watches, c.headers, c.of)
	}
}

// A call waits for a place as long as it has time.
func TestCallsWait(t *testing.T) {
	c := newCalls()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	on := &connection{conn: server}
	for range maxCalls {
		of := &call{on: on}
		if !c.begin(t.Context(), of) {
			t.Fatal("there is no place")
		}
		c.read(of)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if c.begin(ended, &call{on: on}) || on.running != maxCalls {
		t.Error("a call whose time is over waits on")
	}
	began := make(chan bool, 1)
	go func() { began <- c.begin(t.Context(), &call{on: on}) }()
	c.end(&call{on: on}, time.Now())
	if !<-began {
		t.Error("a call does not get the place of another")
	}
}

// A long check is answered, since Envoy lets a request pass when its check fails.
func TestLongMessages(t *testing.T) {
	s := start(t, nil)
	s.check(checkOf("203.0.113.7", "/"+strings.Repeat("a", 60<<10), "user-agent", strings.Repeat("b", 60<<10)))
	_, err := auth.NewAuthorizationClient(s.conn).Check(t.Context(), checkOf("203.0.113.7", "/"+strings.Repeat("a", messageBytes)))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
	traced := metadata.AppendToOutgoingContext(t.Context(), "tracestate", strings.Repeat("a", 60<<10))
	if _, err := auth.NewAuthorizationClient(s.conn).Check(traced, checkOf("203.0.113.7", "/")); err != nil {
		t.Error(err)
	}
	long := metadata.AppendToOutgoingContext(t.Context(), "x-long", strings.Repeat("a", headerBytes))
	if _, err := auth.NewAuthorizationClient(s.conn).Check(long, checkOf("203.0.113.7", "/")); status.Code(err) == codes.OK {
		t.Error("a header of any length is taken")
	}
}

// A connection without gRPC is closed.
func TestGarbage(t *testing.T) {
	s := start(t, nil)
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		conn, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, text)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
}

// A server that is ended as soon as it listens reports no error.
func TestEndedAtOnce(t *testing.T) {
	for range 100 {
		logger := slog.New(slog.DiscardHandler)
		server, err := Open(Config{Listen: "127.0.0.1:0", Logger: logger, Metrics: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.Run(ctx) }()
		<-server.Serving()
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
