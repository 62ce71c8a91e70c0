package enforcer

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"

	"weir/internal/keys"
	"weir/internal/limited"
)

// Admit returns the name of the caller, if it has the wanted role.
//
// A caller who could open the unix socket is admin. Others send a key, or show a certificate that one of our roots
// signed, which is enough to read, and to take from inline limits as edges do by their checks. Without a file of keys,
// when only this machine can connect, every caller may do that; manual entries always need a key.
func (e *Enforcer) Admit(r *http.Request, want keys.Role) (by string, err error) {
	if name, ok := r.Context().Value(personKey{}).(string); ok {
		return name, nil
	}
	if in, ok := r.Context().Value(loggedInKey{}).(loggedIn); ok {
		if !in.role.May(want) {
			return "", problemf(http.StatusForbidden, "%s has the role %s, and %s is needed", in.name, in.role, want)
		}
		return in.name, nil
	}
	certified := keys.Certified(r, e.config.TLS)
	usual := keys.Read.May(want) || want == keys.Take
	// A connection that has identified itself no longer counts against the bound of its address (limited).
	if certified {
		limited.Showed(r.Context())
	} else if keys.AsksCertificates(e.config.TLS) {
		return "", refusedKey(keys.ErrCertificate)
	}

	if e.config.Keys != nil {
		key, err := e.config.Keys.Admit(r, want)
		if err == nil {
			limited.Showed(r.Context())
		}

		// A certificate replaces a missing key, never a wrong one: a caller that sends a key means that key.
		if err == nil || !certified || !usual || !errors.Is(err, keys.ErrNone) {
			return key.Name, refusedKey(err)
		}
		return commonName(r), nil
	}

	// Without a certificate no other machine can connect here (guard).
	if usual {
		if certified {
			by = commonName(r)
		}
		return by, nil
	}
	return "", problemf(http.StatusUnauthorized, "orders are given with a key of the role write, and this enforcer has no file of keys: set enforcer.keys, or use its socket")
}

// A loggedIn is a caller with a key that was shown before.
type loggedIn struct {
	name string
	role keys.Role
}

type loggedInKey struct{}

// As returns a context for requests in the process of a caller that logged in at a page. They need no key.
func As(ctx context.Context, name string, role keys.Role) context.Context {
	return context.WithValue(ctx, loggedInKey{}, loggedIn{name, role})
}

// Caller returns the address of the client that sent a request, also behind our own proxies; not valid over a unix
// socket.
func (e *Enforcer) Caller(r *http.Request) netip.Addr { return e.caller(r) }

// Ending returns a channel that is closed when the enforcer ends. Answers that last end then.
func (e *Enforcer) Ending() <-chan struct{} { return e.ending }

// commonName returns the name in the certificate of a certified caller.
func commonName(r *http.Request) string { return r.TLS.VerifiedChains[0][0].Subject.CommonName }

// Guard passes on callers that may read.
func (e *Enforcer) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := e.Admit(r, keys.Read); err != nil {
			writeProblem(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refusedKey(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, keys.ErrRole):
		return problemf(http.StatusForbidden, "%s", err)
	}
	return problemf(http.StatusUnauthorized, "%s", err)
}

// personKey is the key in a request's context for the user who opened the unix socket.
type personKey struct{}

// Person returns the user who sends a request over the unix socket.
func Person(r *http.Request) (name string, ok bool) {
	name, ok = r.Context().Value(personKey{}).(string)
	return name, ok
}

// withPerson notes the user who opened a connection over a unix socket. On systems that do not report it, no user is
// noted, and a key is required.
func withPerson(ctx context.Context, conn net.Conn) context.Context {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	name, err := personAt(socket)
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, personKey{}, name)
}
