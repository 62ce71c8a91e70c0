package limited

import (
	"context"
	"net"
	"net/http"
	"time"
)

// Bounds of an HTTP server towards strangers.
const (
	HeaderBytes    = 32 << 10
	HeaderPatience = 10 * time.Second
	// WritePatience is how long a piece of an answer may take.
	WritePatience = 30 * time.Second

	pieceBytes = 64 << 10
)

type connKey struct{}

// Track has a server tell the listener which of its connections are idle. It is called before the server serves.
func Track(server *http.Server) {
	before := server.ConnContext
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, c)
		}
		if c, ok := inner(c); ok {
			ctx = context.WithValue(ctx, connKey{}, c)
		}
		return ctx
	}

	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state != http.StateActive && state != http.StateIdle {
			return
		}
		if c, ok := inner(c); ok {
			c.change(state == http.StateActive)
		}
	}
}

// Showed notes that the connection of a request has shown who it is.
func Showed(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.show()
	}
}

// Answer is a writer of answers of which each piece has to be taken within WritePatience. Behind 401, 403 and 404 it
// closes the connection: whoever knows no key and no path does not keep a place.
func Answer(w http.ResponseWriter) http.ResponseWriter {
	if a, ok := w.(*answer); ok {
		return a
	}
	return &answer{ResponseWriter: w, control: http.NewResponseController(w)}
}

type answer struct {
	http.ResponseWriter
	control *http.ResponseController
}

// WriteHeader begins the answer.
func (a *answer) WriteHeader(status int) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		a.Header().Set("Connection", "close")
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes in pieces.
func (a *answer) Write(b []byte) (written int, err error) {
	for begun := false; !begun || len(b) > 0; begun = true {
		piece := b[:min(len(b), pieceBytes)]
		_ = a.control.SetWriteDeadline(time.Now().Add(WritePatience)) // a test's writer has none
		n, err := a.ResponseWriter.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		b = b[len(piece):]
	}
	return written, nil
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
