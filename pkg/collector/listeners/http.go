package listeners

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"weir/internal/keys"
	"weir/internal/limited"
	"weir/internal/origin"
	"weir/internal/sleep"
	"weir/pkg/collector/pipeline"
	"weir/pkg/request"
)

// An HTTPConfig describes a source that accepts posted requests.
type HTTPConfig struct {
	Listen string
	TLS    *tls.Config // nil is none
	Keys   *keys.File  // the clients that may send, by role; nil is everyone
	Hosts  []string    // names of this machine, besides localhost, that clients without keys may use
	OTLP   bool        // takes OTLP's logs over gRPC and HTTP, in place of /v1/requests
	Loki   bool        // takes pushes of Loki's clients, in place of /v1/requests
}

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
// at most 64 MiB together, and senders share them: see room. There are 1,024 connections, half of them for one address that has shown no key; headers
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
	in     *pipeline.Intake
	config HTTPConfig
	limits httpLimits
	pages  origin.Pages
	room   *room
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
	stall                   time.Duration // see room
}

var usualHTTPLimits = httpLimits{
	bodyBytes: 16 << 20, memoryBytes: 64 << 20, posts: 1024, connections: 1024,
	headerFor: 10 * time.Second, bodyFor: time.Minute, ack: 30 * time.Second,
	stall: 2 * time.Second,
}

// NewHTTP makes a source of posted requests.
func NewHTTP(in *pipeline.Intake, config HTTPConfig) (pipeline.Source, error) {
	if err := guard(config.Listen, config.TLS, config.Keys != nil); err != nil {
		return nil, fmt.Errorf("listening on %s: %w; give keys or client certificates, or listen on 127.0.0.1", config.Listen, err)
	}
	h := &httpSource{in: in, config: config, more: make(chan struct{}, 1), ended: make(chan struct{})}
	if !h.asks() {
		h.pages = origin.Loopback(config.Hosts)
	}
	h.limit(usualHTTPLimits)
	return h, nil
}

// asks reports whether senders are asked for a key or a certificate.
func (h *httpSource) asks() bool { return h.config.Keys != nil || keys.AsksCertificates(h.config.TLS) }

func (h *httpSource) limit(l httpLimits) {
	h.limits, h.queue, h.room = l, make(chan *post, l.posts), newRoom(l, h.in.Now)
}

// Announce does nothing: no requests wait.
func (h *httpSource) Announce() {}

func (h *httpSource) Status() pipeline.SourceStatus { return h.in.Status(h.kind()) }

// Run listens until the context is done. Then it answers the clients that have already posted, if Kafka answers in
// time.
func (h *httpSource) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.config.Listen)
	if err != nil {
		return fmt.Errorf("listening for requests: %w", limited.InUse(err, h.kind()+" of this source in collector.sources"))
	}
	s := incarnation(h.in, listener.Addr().String(), true)
	defer s.Close()

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
	running.Go(func() { failed <- pipeline.Contained(func() error { return h.feed(feeding, work, s) }) })

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
		Handler: h.contained(), TLSConfig: h.config.TLS,
		ReadHeaderTimeout: h.limits.headerFor, ReadTimeout: h.limits.headerFor + h.limits.bodyFor,
		WriteTimeout: h.limits.headerFor + h.limits.bodyFor + h.limits.ack + 10*time.Second,
		IdleTimeout:  2 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(h.in.Logger().Handler(), slog.LevelDebug), // any client can cause these
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	if h.config.OTLP { // gRPC needs HTTP/2
		server.Protocols.SetHTTP2(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streamsPerConnection, MaxReadFrameSize: frameBytes, WriteByteTimeout: limited.WritePatience}
		server.TLSConfig = keys.Speaks(h.config.TLS, "h2", "http/1.1")
	}
	limited.Track(server)
	return server
}

// contained handles requests so that a panic ends one connection only, and is reported.
func (h *httpSource) contained() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.in.Isolated("a request over HTTP", func() { h.ServeHTTP(w, r) }) {
			panic(http.ErrAbortHandler)
		}
	})
}

func (h *httpSource) serve(server *http.Server, listener net.Listener) error {
	bounds := limited.Bounds{Connections: h.limits.connections, PerAddress: h.limits.connections / 2, Asks: h.asks()}
	listener = limited.Listen(listener, bounds, func(why error) { h.in.Incident("connections", why) })
	path, _ := h.path()
	h.in.Logger().Info("takes requests", "address", listener.Addr().String(), "path", path)
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
func (h *httpSource) feed(ctx, work context.Context, s *pipeline.Stream) error {
	defer close(h.ended)
	for {
		s.SetLag(int64(len(h.queue)))
		var err error
		select {
		case p := <-h.queue:
			err = h.count(work, s, p)
		default:
			err = s.Wait(ctx, h.more)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("counting posted requests: %w", err)
		}
		if ctx.Err() != nil {
			break
		}
	}

	if err := s.Drain(work); err != nil {
		h.in.Logger().Warn("Kafka has not acknowledged the last posted requests; their senders got no 200", "why", err)
	}
	return nil
}

// count gives a posted body to the stream, unless its sender has gone.
func (h *httpSource) count(ctx context.Context, s *pipeline.Stream, p *post) error {
	if !p.state.CompareAndSwap(postWaits, postTaken) {
		return nil
	}
	defer h.room.release(p)
	h.last = s.Relearn(p.first, h.last)
	return s.Together(ctx, func() error {
		return p.each(func(record []byte) error { return p.add(ctx, s, record) })
	}, func(got pipeline.Outcome, err error) { p.done <- counting{got, err} })
}

// ServeHTTP answers one request.
func (h *httpSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = limited.Answer(w)
	switch {
	case h.config.OTLP:
		h.serveOTLP(w, r)
		return
	case h.config.Loki:
		h.serveLoki(w, r)
		return
	}
	got, wrong := h.handle(w, r)
	if wrong == nil {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answerTo(got))
		return
	}

	h.refuse(w, wrong)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(wrong.Status)
	json.NewEncoder(w).Encode(wrong)
}

// handle takes a body and returns its outcome, or why it is not taken.
func (h *httpSource) handle(w http.ResponseWriter, r *http.Request) (pipeline.Outcome, *httpProblem) {
	sender, wrong := h.admit(r)
	if wrong != nil {
		return pipeline.Outcome{}, wrong
	}
	kind, err := bodyKind(r.Header.Get("Content-Type"))
	if err != nil {
		return pipeline.Outcome{}, problem(http.StatusUnsupportedMediaType, err)
	}

	p := newPost(sender, kind == kindJSON, interrupts(w))
	p.form = fromForm(r)
	return h.deliver(w, r, p)
}

// deliver reads the body of a post and waits until it is counted.
func (h *httpSource) deliver(w http.ResponseWriter, r *http.Request, p *post) (pipeline.Outcome, *httpProblem) {
	if r.ContentLength > h.limits.bodyBytes {
		w.Header().Set("Connection", "close") // what follows is not read
		return pipeline.Outcome{}, h.unread(&http.MaxBytesError{Limit: h.limits.bodyBytes})
	}
	r.Body = http.MaxBytesReader(w, r.Body, h.limits.bodyBytes)
	if err := h.take(p, r); err != nil {
		return pipeline.Outcome{}, h.unread(err)
	}

	sleep.Wake(h.more)
	return h.await(r, p)
}

// take reads the body of a post and puts it into the queue.
func (h *httpSource) take(p *post, r *http.Request) (err error) {
	if !h.room.enter(p) {
		return errFull
	}
	taken := false
	defer func() {
		if !taken {
			h.room.release(p)
		}
	}()

	if err := p.read(h.room, r, h.limits.bodyBytes); err != nil {
		if p.state.Load() == postGone {
			return errFull
		}
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	if p.joined() {
		return errJoined
	}
	p.remedy = p.remedies()
	if !p.state.CompareAndSwap(postArrives, postWaits) {
		return errFull
	}

	select {
	case h.queue <- p:
		taken = true
		return nil
	default:
		return errFull
	}
}

// admit returns the sender of a request, or the reason to refuse it, before its body is read.
func (h *httpSource) admit(r *http.Request) (sender string, wrong *httpProblem) {
	path, otherwise := h.path()
	call := h.config.OTLP && isGRPC(r)
	if r.URL.Path != path && !(call && r.URL.Path == otlpGRPCPath) {
		return "", problem(http.StatusNotFound, otherwise)
	}
	if r.Method != http.MethodPost {
		return "", problem(http.StatusMethodNotAllowed, otherwise)
	}
	if err := h.pages.Check(r); err != nil && !call { // senders name the service as they like, and no browser calls
		return "", problem(http.StatusForbidden, err)
	}

	sender = "connection " + r.RemoteAddr
	if keys.AsksCertificates(h.config.TLS) {
		if !keys.Certified(r, h.config.TLS) {
			return "", problem(http.StatusUnauthorized, keys.ErrCertificate)
		}
		limited.Showed(r.Context())
		sender = "certificate " + string(r.TLS.PeerCertificates[0].RawSubjectPublicKeyInfo)
	}

	if h.config.Keys == nil {
		return sender, nil
	}
	key, err := h.config.Keys.Admit(r, keys.Send)
	switch {
	case err == nil:
		limited.Showed(r.Context())
	case errors.Is(err, keys.ErrRole):
		return "", problem(http.StatusForbidden, err)
	case err != nil:
		return "", problem(http.StatusUnauthorized, err)
	}

	return "key " + key.Name, nil
}

// unread returns the answer to a body that was not taken.
func (h *httpSource) unread(err error) *httpProblem {
	var long *http.MaxBytesError
	switch {
	case errors.Is(err, errFull):
		return problem(http.StatusTooManyRequests, err)
	case errors.As(err, &long), errors.Is(err, errLarge):
		return problem(http.StatusRequestEntityTooLarge, fmt.Errorf("the body is larger than %d bytes, decompressed: send it in several", h.limits.bodyBytes))
	case errors.Is(err, errEncoding):
		return problem(http.StatusUnsupportedMediaType, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem(http.StatusRequestTimeout, fmt.Errorf("the body had not arrived after %s", h.limits.bodyFor))
	}
	return problem(http.StatusBadRequest, err)
}

// await waits until Kafka has the post.
func (h *httpSource) await(r *http.Request, p *post) (pipeline.Outcome, *httpProblem) {
	patience := time.NewTimer(h.limits.ack)
	defer patience.Stop()
	why := errPending
	select {
	case got := <-p.done:
		return settled(got, p.remedy)
	case <-patience.C:
	case <-r.Context().Done():
		why = errStopping // or the client has gone
	case <-h.ended:
		why = errStopping
	}

	// A body that was not taken yet is certainly not counted, and can be sent again without harm.
	if p.state.CompareAndSwap(postWaits, postGone) {
		h.room.release(p)
	}
	if p.state.Load() == postGone { // perhaps it had to make room
		return pipeline.Outcome{}, problem(http.StatusTooManyRequests, errFull)
	}

	select {
	case got := <-p.done:
		return settled(got, p.remedy)
	default:
		return pipeline.Outcome{}, problem(http.StatusServiceUnavailable, why)
	}
}
