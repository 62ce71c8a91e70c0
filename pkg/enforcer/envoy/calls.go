package envoy

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
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
	all     int // from the header of a call until its stream has ended
	watches int
	of      map[netip.Addr]int
	headers int       // weight of large headers
	unread  list.List // calls that have begun and wait for their message, the oldest first
	unsent  list.List // calls that have ended here, and whose answers their clients have not taken yet
}

func newCalls() *calls {
	return &calls{places: make(chan struct{}, maxCalls), of: map[netip.Addr]int{}}
}

// enter takes in a call whose header has arrived, and returns whether there is room for it.
func (c *calls) enter(of *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	on := of.on
	switch {
	case c.all >= maxCalls+maxWaiting, of.watch && c.watches >= maxWatches:
		return false
	case on.from.IsValid() && !on.known && c.of[on.from] >= maxCallsOf:
		return false
	case of.weight > 0 && c.headers+of.weight > maxHeaders, !on.begin(of):
		return false
	}
	c.all++
	c.headers += of.weight
	if of.watch {
		c.watches++
	}
	if on.from.IsValid() {
		c.of[on.from]++
	}
	return true
}

// begin takes a place for a call. If there is none, it waits until the context is done. The result is then false.
func (c *calls) begin(ctx context.Context, of *call) bool {
	c.runs(of, 1)
	select {
	case c.places <- struct{}{}:
	default:
		select {
		case c.places <- struct{}{}:
		case <-ctx.Done():
			c.runs(of, -1)
			return false
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if !of.watch {
		c.reads(of)
	}
	return true
}

// end gives the place of a call back. It returns a connection that has to be closed, if too many answers are not taken.
func (c *calls) end(of *call, now time.Time) *connection {
	<-c.places
	c.runs(of, -1)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered(of, now)
}

// runs notes how many calls of a connection run or wait. One without any may make room for another connection.
func (c *calls) runs(of *call, more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	on := of.on
	switch on.running += more; {
	case on.running == 0:
		limited.Idle(on.conn)
	case on.running == 1 && more > 0:
		limited.Busy(on.conn)
	}
}

// gone notes that a stream has ended on its connection.
func (c *calls) gone(on *connection, stream uint32) {
	of := on.end(stream)
	if of == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of.gone = true
	if of.in == &c.unsent {
		of.become(nil)
	}
	c.all--
	c.headers -= of.weight
	if of.watch {
		c.watches--
	}
	if on.from.IsValid() {
		if c.of[on.from]--; c.of[on.from] == 0 {
			delete(c.of, on.from)
		}
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

// A callKey is the key of a call in its context.
type callKey struct{}

// arrives takes in a call whose header has arrived, and bounds its time, beginning before its message is there. The end
// of the stream ends the context. A call that finds no room is answered at once, and has no goroutine.
func (s *Server) arrives(ctx context.Context, info *tap.Info) (context.Context, error) {
	on, ok := connectionOf(ctx)
	method := s.methods[info.FullMethodName]
	c := &call{on: on, watch: method.watch, weight: lighten(info.Header)}
	if ok {
		c.stream = on.opening
	}
	if !ok || !s.calls.enter(c) {
		s.faults.Note("calls", errTooMany)
		if method.counts != nil {
			method.counts.note(codes.Unavailable, 0)
		}
		return nil, errTooMany
	}
	if !c.watch {
		ctx, c.cancel = context.WithTimeout(ctx, callPatience)
	}
	return context.WithValue(ctx, callKey{}, c), nil
}

// keyNames are the metadata that may have a key.
var keyNames = []string{"x-api-key", "authorization"}

// lighten drops all of a call's header that is no key: Envoy passes on headers of the client, which may be long
// (tracestate). It returns about what the call keeps in memory, and 0 if that is little. The map does not get smaller.
func lighten(header metadata.MD) (weight int) {
	for name, values := range header {
		weight += len(values) * fieldWeight
		if key := strings.Join(values, ""); slices.Contains(keyNames, name) && len(key) <= keyBytes {
			weight += len(key)
		} else {
			delete(header, name)
		}
	}
	if weight <= freeHeader {
		return 0
	}
	return weight
}

var (
	errTooMany = status.Error(codes.Unavailable, "too many calls at once")
	errPanic   = status.Error(codes.Unavailable, "the enforcer could not decide")
)

// guard bounds a call, asks for its key, and counts it.
func (s *Server) guard(door string, role keys.Role, counts *doorCounts, handle grpc.StreamHandler) grpc.StreamHandler {
	return func(impl any, stream grpc.ServerStream) (err error) {
		began := time.Now()
		defer func() {
			if what := recover(); what != nil {
				s.faults.Note("panic", fmt.Errorf("a call of %s: %v\n%s", door, what, debug.Stack()))
				err = errPanic
			}
			counts.note(status.Code(err), time.Since(began))
		}()

		c, ok := stream.Context().Value(callKey{}).(*call)
		if !ok || !s.calls.begin(stream.Context(), c) {
			s.faults.Note("calls", errTooMany)
			return errTooMany
		}
		defer func() {
			if slow := s.calls.end(c, time.Now()); slow != nil {
				s.closeUnsent(slow)
			}
		}()
		if err := s.admit(stream.Context(), c.on, role); err != nil {
			return err
		}
		ctx := stream.Context()
		if c.watch {
			bounded, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(s.ending, cancel)()
			ctx = bounded
		}
		err = handle(impl, guarded{stream, ctx, s, c})
		if err != nil && s.calls.isLate(c) {
			s.faults.Note("calls", errUnread)
			return errTooMany
		}
		return named(err)
	}
}

// admit asks for the role that a call needs; empty is none.
func (s *Server) admit(ctx context.Context, on *connection, role keys.Role) error {
	if role == "" || s.config.Keys == nil && s.config.TLS == nil { // only this machine can connect then (Open)
		return nil
	}
	r := &http.Request{Header: http.Header{}, RemoteAddr: on.peer, TLS: on.tls}
	for _, name := range keyNames {
		for _, value := range metadata.ValueFromIncomingContext(ctx, name) {
			r.Header.Add(name, value)
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

// named gives every error a code: Unavailable if it is none of gRPC's.
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

// guarded is the stream of a call. One that stays open ends with the server.
type guarded struct {
	grpc.ServerStream
	ctx    context.Context
	server *Server
	call   *call
}

// Context is done when the server ends, too, if the stream stays open.
func (g guarded) Context() context.Context { return g.ctx }

// RecvMsg reads a message.
func (g guarded) RecvMsg(into any) error {
	err := g.ServerStream.RecvMsg(into)
	g.server.calls.read(g.call)
	return err
}
