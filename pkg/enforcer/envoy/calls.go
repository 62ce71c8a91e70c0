package envoy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"weir/internal/keys"
	"weir/internal/limited"
	"weir/pkg/enforcer"
)

// calls are those that run or wait, by connection and by address.
type calls struct {
	places chan struct{} // of those that run

	mu      sync.Mutex
	all     int
	watches int
	of      map[netip.Addr]int
}

func newCalls() *calls {
	return &calls{places: make(chan struct{}, maxCalls), of: map[netip.Addr]int{}}
}

// begin takes a place for a call. If there is none, it waits until the context is done, unless too many calls wait. The
// result is then false.
func (c *calls) begin(ctx context.Context, on *connection, watch bool) bool {
	if !c.enter(on, watch) {
		return false
	}
	select {
	case c.places <- struct{}{}:
		return true
	default:
	}
	select {
	case c.places <- struct{}{}:
		return true
	case <-ctx.Done():
		c.leave(on, watch)
		return false
	}
}

func (c *calls) end(on *connection, watch bool) {
	<-c.places
	c.leave(on, watch)
}

func (c *calls) enter(on *connection, watch bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.all >= maxCalls+maxWaiting, watch && c.watches >= maxWatches, on.from.IsValid() && !on.known && c.of[on.from] >= maxCallsOf:
		return false
	}
	c.all++
	if watch {
		c.watches++
	}
	if on.from.IsValid() {
		c.of[on.from]++
	}
	if on.running++; on.running == 1 {
		limited.Busy(on.conn)
	}
	return true
}

func (c *calls) leave(on *connection, watch bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if watch {
		c.watches--
	}
	if on.from.IsValid() {
		if c.of[on.from]--; c.of[on.from] == 0 {
			delete(c.of, on.from)
		}
	}
	if on.running--; on.running == 0 {
		limited.Idle(on.conn)
	}
}

// knows notes that a connection has identified its client.
func (c *calls) knows(on *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !on.known {
		on.known = true
		limited.Known(on.conn)
	}
}

// limitTime bounds the time of a call, beginning before its message is there. The end of the call ends the context.
func (s *Server) limitTime(ctx context.Context, info *tap.Info) (context.Context, error) {
	if s.streams[info.FullMethodName] {
		return ctx, nil
	}
	bounded, cancel := context.WithTimeout(ctx, callPatience)
	_ = cancel // the context above is done when the call ends
	return bounded, nil
}

var (
	errTooMany = status.Error(codes.Unavailable, "too many calls at once")
	errPanic   = status.Error(codes.Unavailable, "the enforcer could not decide")
)

// guard bounds a call, asks for its key, and counts it.
func (s *Server) guard(door string, role keys.Role, watch bool, handle grpc.StreamHandler) grpc.StreamHandler {
	counts := s.metrics.door(door)
	return func(impl any, stream grpc.ServerStream) (err error) {
		began := time.Now()
		defer func() {
			if what := recover(); what != nil {
				s.faults.Note("panic", fmt.Errorf("a call of %s: %v\n%s", door, what, debug.Stack()))
				err = errPanic
			}
			counts.note(status.Code(err), time.Since(began))
		}()

		on, ok := connectionOf(stream.Context())
		if !ok || !s.calls.begin(stream.Context(), on, watch) {
			s.faults.Note("calls", errTooMany)
			return errTooMany
		}
		defer s.calls.end(on, watch)
		if err := s.admit(stream.Context(), on, role); err != nil {
			return err
		}
		if watch {
			ctx, cancel := context.WithCancel(stream.Context())
			defer cancel()
			defer context.AfterFunc(s.ending, cancel)()
			stream = watching{stream, ctx}
		}
		return named(handle(impl, stream))
	}
}

// admit asks for the role that a call needs; empty is none.
func (s *Server) admit(ctx context.Context, on *connection, role keys.Role) error {
	if role == "" || s.config.Keys == nil && s.config.TLS == nil { // only this machine can connect then (Open)
		return nil
	}
	r := &http.Request{Header: http.Header{}, RemoteAddr: on.peer, TLS: on.tls}
	for _, name := range []string{"X-Api-Key", "Authorization"} {
		if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
			r.Header[name] = values
		}
	}
	by, err := s.config.Decide.Admit(r, role)
	switch {
	case err == nil && (by != "" || on.tls != nil && len(on.tls.VerifiedChains) > 0):
		s.calls.knows(on)
	case err == nil:
	case enforcer.StatusOf(err) == http.StatusForbidden:
		return status.Error(codes.PermissionDenied, err.Error())
	default:
		return status.Error(codes.Unauthenticated, err.Error())
	}
	return nil
}

// named gives every error a code: what is none of gRPC's is Unavailable.
func named(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}

// connectionOf returns the connection of a call.
func connectionOf(ctx context.Context) (*connection, bool) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	on, ok := from.AuthInfo.(*connection)
	return on, ok
}

// watching is a stream that stays open, and ends with the server.
type watching struct {
	grpc.ServerStream
	ctx context.Context
}

// Context is done when the server ends, too.
func (w watching) Context() context.Context { return w.ctx }
