package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"weir/internal/keys"
	"weir/internal/limited"
	"weir/internal/origin"
	"weir/pkg/request"
)

// An httpSource takes requests that clients post to /v1/requests: one per line, or JSON (see post.each), compressed
// with gzip or not. It answers 200 once Kafka has the hits of all of them, with the numbers of requests that were read
// and not. Without room it answers 429 with Retry-After, and none of the body is counted.
//
// Delivery is at least once. A body answered with 200 is counted, and stays so whatever is killed. A body answered
// with 429 or a 4xx is not counted. After no answer, or a 503 that states this, the body may have been counted
// completely, in part or not at all: to send it again may count it twice, not to send it again may lose it. Nothing is
// kept on disk. Bodies of one sender are counted in the order of their answers; within one the order is the body's.
//
// Bounds: a body has at most 16 MiB, compressed and decompressed. Bodies that are being read or wait to be counted use
// at most 64 MiB together. There are 1,024 connections, half of them for one address that has shown no key; headers
// have to arrive within 10 s and bodies within a minute. A sender waits at most 30 s for Kafka.
//
// On an address other than loopback it needs keys with the role send, or client certificates; without them it does not
// start. It refuses a browser's page of another origin, and, on loopback without keys, requests with another Host than
// this machine.
//
// With auto the form is found out again whenever most of the first records of a body do not have that of the last
// body.
//
// One goroutine per connection reads and decompresses; the stream's goroutine parses the bodies, one after the other.
type httpSource struct {
	*intake
	limits httpLimits
	pages  origin.Pages
	memory memory
	queue  chan *post
	more   chan struct{}   // the queue has an element
	ended  chan struct{}   // closed when the queue is read no longer
	last   *request.Choice // the last body's form, where that has to be found out
}

// httpLimits are bounds that tests make smaller.
type httpLimits struct {
	bodyBytes, memoryBytes  int64
	posts, connections      int
	headerFor, bodyFor, ack time.Duration
}

var usualHTTPLimits = httpLimits{
	bodyBytes: 16 << 20, memoryBytes: 64 << 20, posts: 1024, connections: 1024,
	headerFor: 10 * time.Second, bodyFor: time.Minute, ack: 30 * time.Second,
}

func newHTTPSource(in *intake) (source, error) {
	config := in.config.HTTP
	if err := guard(config.Listen, config.TLS, config.Keys != nil); err != nil {
		return nil, fmt.Errorf("listening on %s: %w; give keys or client certificates, or listen on 127.0.0.1", config.Listen, err)
	}
	h := &httpSource{intake: in, more: make(chan struct{}, 1), ended: make(chan struct{})}
	if config.Keys == nil && !keys.AsksCertificates(config.TLS) {
		h.pages = origin.Loopback(config.Hosts)
	}
	h.limit(usualHTTPLimits)
	return h, nil
}

func (h *httpSource) limit(l httpLimits) {
	h.limits, h.queue = l, make(chan *post, l.posts)
	h.memory.left.Store(l.memoryBytes)
}

func (h *httpSource) status() SourceStatus { return h.intake.status("http") }

// run listens until the context is done. Then it answers the clients that have already posted, if Kafka answers in
// time.
func (h *httpSource) run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.config.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("listening for requests: %w", err)
	}
	s := h.incarnation(listener.Addr().String())
	defer s.close()

	// work outlives ctx, so that bodies that were taken before the end can be counted and answered.
	work, abandon := lingering(ctx)
	defer abandon()
	feeding, stop := context.WithCancel(work)
	defer stop()
	failed := make(chan error, 2)
	var running sync.WaitGroup
	defer running.Wait()
	server := h.server(feeding)
	running.Go(func() { failed <- h.serve(server, listener) })
	running.Go(func() { failed <- contained(func() error { return h.feed(feeding, work, s) }) })

	select {
	case <-ctx.Done():
	case err = <-failed:
		abandon()
	}
	if server.Shutdown(work) != nil { // it answers the requests under way first
		_ = server.Close()
	}
	stop()
	return err
}

func (h *httpSource) server(ctx context.Context) *http.Server {
	server := &http.Server{
		Handler: h.contained(), TLSConfig: h.config.HTTP.TLS,
		ReadHeaderTimeout: h.limits.headerFor, ReadTimeout: h.limits.headerFor + h.limits.bodyFor,
		WriteTimeout: h.limits.headerFor + h.limits.bodyFor + h.limits.ack + 10*time.Second,
		IdleTimeout:  2 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(h.logger.Handler(), slog.LevelDebug), // any client can cause these
	}
	limited.Track(server)
	return server
}

// contained handles requests so that a panic ends one connection only, and is reported.
func (h *httpSource) contained() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.isolated("a request over HTTP", func() { h.ServeHTTP(w, r) }) {
			panic(http.ErrAbortHandler)
		}
	})
}

func (h *httpSource) serve(server *http.Server, listener net.Listener) error {
	bounds := limited.Bounds{Connections: h.limits.connections, PerAddress: h.limits.connections / 2}
	listener = limited.Listen(listener, bounds, func(why error) { h.trouble("connections", why) })
	h.logger.Info("takes requests", "address", listener.Addr().String(), "path", requestsPath)
	var err error
	if server.TLSConfig != nil {
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}

	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("taking requests: %w", err)
}

// feed gives the posted bodies to the stream until ctx is done; then it waits for Kafka to acknowledge them until work
// is done.
func (h *httpSource) feed(ctx, work context.Context, s *stream) error {
	defer close(h.ended)
	for {
		s.lag.Store(int64(len(h.queue)))
		var err error
		select {
		case p := <-h.queue:
			err = h.count(work, s, p)
		default:
			err = s.wait(ctx, h.more)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("counting posted requests: %w", err)
		}
		if ctx.Err() != nil {
			break
		}
	}

	if err := s.drain(work); err != nil {
		h.logger.Warn("Kafka has not acknowledged the last posted requests; their senders got no 200", "why", err)
	}
	return nil
}

// count gives a posted body to the stream, unless its sender has gone.
func (h *httpSource) count(ctx context.Context, s *stream, p *post) error {
	if !p.state.CompareAndSwap(postWaits, postTaken) {
		return nil
	}
	defer h.memory.release(p)
	h.last = s.relearn(p.first, h.last)
	before, refused := s.tally.outcome, s.refused
	if err := p.each(func(record []byte) error { return p.add(ctx, s, record) }); err != nil {
		return err
	}

	got := s.tally.since(before)
	s.show()
	s.then(func(err error) {
		if err == nil && s.refused > refused { // perhaps it was an earlier cut of the same body
			err = errLost
		}
		p.done <- counting{got, err}
	})

	return nil
}
