package limited

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Bounds of an HTTP server for unknown clients.
const (
	HeaderBytes    = 32 << 10
	HeaderPatience = 10 * time.Second
	// WritePatience bounds the writing of one piece of an answer.
	WritePatience = 30 * time.Second
	// RestPatience bounds the wait for the rest of a body that no one reads. Its connection is busy meanwhile.
	RestPatience = 2 * time.Second

	pieceBytes = 64 << 10
)

type connKey struct{}

// Track makes a server report to the listener which connections are idle. It is called before the server serves.
func Track(server *http.Server) {
	before := server.ConnContext
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, c)
		}
		_, encrypts := c.(interface{ NetConn() net.Conn })
		if c, ok := inner(c); ok {
			c.inHead.Store(true)
			c.encrypted = encrypts
			ctx = context.WithValue(ctx, connKey{}, c)
		}
		return ctx
	}

	server.ConnState = func(c net.Conn, state http.ConnState) {
		// A connection begins as new by itself, and Close ends it.
		if state != http.StateActive && state != http.StateIdle {
			return
		}
		if c, ok := inner(c); ok {
			c.request(state == http.StateActive)
		}
	}
}

// request notes that a request begins or ends; over HTTP/2 the first one that runs, and the last one. A header has
// arrived when the request begins. Over HTTP/1 nothing else reads meanwhile.
func (c *conn) request(begins bool) {
	c.inHead.Store(!begins)
	c.head.Store(0)
	c.weight.Store(0)
	c.change(begins)
}

// Showed notes that the connection of a request has identified its client.
func Showed(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.show()
	}
}

// Answer returns a writer that bounds the writing of each piece of an answer by WritePatience. After 401, 403 and 404
// it closes the connection, so that a client without a key or a valid path does not keep a place. After an error it
// waits for the rest of the body no longer than RestPatience.
func Answer(w http.ResponseWriter) http.ResponseWriter {
	if a, ok := w.(*answer); ok {
		return a
	}
	return &answer{ResponseWriter: w, control: http.NewResponseController(w)}
}

type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	rest    atomic.Bool // a deadline for the rest of the body was set
}

// WriteHeader begins the answer.
func (a *answer) WriteHeader(status int) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		a.Header().Set("Connection", "close")
	}
	if status >= http.StatusBadRequest && !a.rest.Load() {
		_ = a.control.SetReadDeadline(time.Now().Add(RestPatience)) // the writer of a test has no deadline
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes in pieces.
func (a *answer) Write(b []byte) (written int, err error) {
	for begun := false; !begun || len(b) > 0; begun = true {
		piece := b[:min(len(b), pieceBytes)]
		_ = a.control.SetWriteDeadline(time.Now().Add(WritePatience)) // the writer of a test has no deadline
		n, err := a.ResponseWriter.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		b = b[len(piece):]
	}
	return written, nil
}

// SetReadDeadline is for http.ResponseController, from any goroutine. An error does not put this deadline off.
func (a *answer) SetReadDeadline(at time.Time) error {
	a.rest.Store(true)
	return a.control.SetReadDeadline(at)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
