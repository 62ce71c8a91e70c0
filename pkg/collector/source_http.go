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

// An httpSource takes requests that others post to /v1/requests: a line each, or JSON (see records), compressed with
// gzip or not. It answers 200 once Kafka has the hits of all of them, and how many were read and not; 429 with
// Retry-After when there is no room, and then nothing of the body was counted.
//
// At least once. A body that was answered with 200 is counted, and stays so whatever is killed. One that was answered
// with 429, or a 4xx, is not counted. When there is no answer, or a 503 that says so, it may have been counted or not,
// in part or as a whole: to send it again may count it twice, not to send it again may lose it. Nothing is kept on
// disk. Bodies of one sender are counted in the order of their answers; within one the order is the body's.
//
// Bounds: a body has at most 16 MiB, compressed and decompressed; the bodies that are being read or wait to be counted
// hold at most 64 MiB together; 1,024 connections, half of them of one address that has shown no key, whose headers have
// to be there within 10 s and bodies within a minute. A sender waits at most 30 s for Kafka.
//
// Beyond loopback it wants keys with the role send, or client certificates, or it does not start. A browser's page of
// another origin is refused, and where nobody is asked for a key, on loopback, whatever has another Host than this machine.
//
// With auto the form is found out again whenever most of the first records of a body do not have that of the last body.
//
// A goroutine a connection reads and decompresses; one, the stream's, parses all bodies, one after the other.
type httpSource struct {
	*intake
	limits httpLimits
	pages  origin.Pages
	memory memory
	queue  chan *post
	more   chan struct{}   // something is in the queue
	ended  chan struct{}   // nothing is taken out of it any more
	last   *request.Choice // of the last body's form, where that has to be found out
}

// httpLimits are bounds, which tests make smaller.
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

// run listens until the context is done. Then who has posted already is answered, as far as Kafka answers in time.
func (h *httpSource) run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.config.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("listening for requests: %w", err)
	}
	s := h.incarnation(listener.Addr().String())
	defer s.close()
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
	if server.Shutdown(work) != nil { // which answers who is here
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
		ErrorLog:    slog.NewLogLogger(h.logger.Handler(), slog.LevelDebug), // what strangers do is not worth a line each
	}
	limited.Track(server)
	return server
}

// contained answers as the source does; a panic ends the one connection and is reported.
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

// feed gives the stream what was posted until the first context is done; then it has Kafka acknowledge it until the
// second one is.
func (h *httpSource) feed(ctx, work context.Context, s *stream) error {
	defer close(h.ended)
	for {
		s.lag.Store(int64(len(h.queue)))
		var err error
		select {
		case p := <-h.queue:
			err = h.take(work, s, p)
		default:
			err = s.wait(ctx, h.more)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("counting what was posted: %w", err)
		}
		if ctx.Err() != nil {
			break
		}
	}

	if err := s.drain(work); err != nil {
		h.logger.Warn("Kafka has not acknowledged the last that was posted; its senders were not told that it has", "why", err)
	}
	return nil
}

// take gives the stream what was posted, unless who posted it has gone.
func (h *httpSource) take(ctx context.Context, s *stream, p *post) error {
	if !p.state.CompareAndSwap(postWaits, postTaken) {
		return nil
	}
	defer h.memory.give(p)
	h.last = s.relearn(p.first, h.last)
	before, refused := s.tally.outcome, s.refused
	if err := p.each(func(record []byte) error { return p.add(ctx, s, record) }); err != nil {
		return err
	}

	got := s.tally.since(before)
	s.show()
	s.then(func(err error) {
		if err == nil && s.refused > refused { // of an earlier cut of the same body, perhaps
			err = errLost
		}
		p.done <- counting{got, err}
	})

	return nil
}
