package enforcer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"weir/internal/keys"
	"weir/internal/limited"
	"weir/internal/origin"
)

// Bounds for unknown clients.
const (
	maxConnections = 10_000
	maxPerAddress  = 5_000 // without a key
	maxFollowers   = 4_096
	bodyPatience   = 30 * time.Second
	answerPatience = maxWait + limited.WritePatience
	lookAtSocket   = time.Second // interval of checks that it is there
	// headerBytes is more than the 60 KiB that Envoy accepts from a client and puts into a check. When a check fails
	// because it is too long, Envoy lets the client through.
	headerBytes  = 72 << 10
	idlePatience = 150 * time.Second // longer than edges keep connections: nginx 60 s, Traefik 90 s, Caddy 120 s
)

// guard refuses to listen where other machines can connect without authentication.
func (c *Config) guard() error {
	if c.Listen == "" || c.Keys != nil || keys.AsksCertificates(c.TLS) {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	if origin.IsLoopback(c.Listen) {
		return nil
	}
	return fmt.Errorf("listening on %s: %w; give keys or client certificates, or listen on 127.0.0.1", c.Listen, errUnguarded)
}

// pages returns the policy for requests of browsers: without keys, only requests for this machine's names are answered.
func (c *Config) pages() origin.Pages {
	if c.Listen == "" || c.Keys != nil || keys.AsksCertificates(c.TLS) {
		return origin.Pages{}
	}
	return origin.Loopback(c.Hosts)
}

// A listening is one of the two ways to connect.
type listening struct {
	net.Listener
	tls bool
}

func (e *Enforcer) listen(ctx context.Context) (all []listening, err error) {
	// A second listener that fails must not leave the first one open.
	defer func() {
		for _, l := range all {
			if err != nil {
				l.Close()
			}
		}
	}()

	if e.config.Listen != "" {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.config.Listen)
		if err != nil {
			return all, fmt.Errorf("listening for checks: %w", limited.InUse(err, "enforcer.listen"))
		}
		e.address = l.Addr().String()
		bounds := limited.Bounds{Connections: maxConnections, PerAddress: maxPerAddress, Asks: e.config.Keys != nil || keys.AsksCertificates(e.config.TLS)}
		all = append(all, listening{limited.Listen(l, bounds, e.noteFull), e.config.TLS != nil})
	}

	if e.config.Socket != "" {
		l, err := listenSocket(ctx, e.config.Socket)
		switch {
		case errors.Is(err, syscall.EROFS): // edges need answers meanwhile
			e.faults.Note("socket", fmt.Errorf("the socket cannot be made yet: %w", err))
		case err != nil:
			return all, fmt.Errorf("listening on the socket: %w", err)
		default:
			all = append(all, listening{l, false})
			e.noteSocket()
		}
	}

	return all, nil
}

// listenSocket replaces a socket without a listener. The user and the group of the process may open it.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}

	// No process listens on a socket that a crash left. One that answers belongs to a process that runs, and is not
	// taken from it.
	if conn, err := net.Dial("unix", path); err == nil {
		conn.Close()
		return nil, fmt.Errorf("%s is in use by another process", path)
	}
	// Another kind of file with this name is not ours to delete.
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is no socket: move it away, or write another path in enforcer.socket", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}

	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, l.Close())
	}

	return l, nil
}

// noteSocket remembers the socket that was just made.
func (e *Enforcer) noteSocket() {
	if info, err := os.Lstat(e.config.Socket); err == nil {
		e.sockets = append(e.sockets, info)
	}
}

// hasSocket reports whether the socket is one that was made here. An error other than that it does not exist is no reason
// to replace it.
func (e *Enforcer) hasSocket() bool {
	info, err := os.Lstat(e.config.Socket)
	if err != nil {
		return len(e.sockets) > 0 && !errors.Is(err, os.ErrNotExist)
	}
	return slices.ContainsFunc(e.sockets, func(made os.FileInfo) bool { return os.SameFile(made, info) })
}

// keepSocket listens again when the socket was deleted or replaced, alone or with its folder, until the context is done,
// and for the first time if the disk was read-only before. The previous listeners stay open, because the folder may come
// back.
func (e *Enforcer) keepSocket(ctx context.Context, server *http.Server, running *sync.WaitGroup) {
	if e.config.Socket == "" {
		return
	}
	look := time.NewTicker(lookAtSocket)
	defer look.Stop()

	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}

		if e.hasSocket() {
			continue
		}
		l, err := listenSocket(ctx, e.config.Socket)
		if err != nil {
			e.faults.Note("socket", fmt.Errorf("there is no socket, and it cannot be made: %w", err))
			continue
		}
		e.faults.Over("socket")
		e.noteSocket()
		running.Go(func() {
			if err := e.serve(server, listening{l, false}); err != nil {
				e.faults.Note("socket", err)
			}
		})
	}
}

func (e *Enforcer) noteFull(why error) { e.faults.Note("connections", why) }

func (e *Enforcer) server() *http.Server {
	server := &http.Server{
		Handler: e, TLSConfig: e.config.TLS, ConnContext: withPerson,
		ReadHeaderTimeout: limited.HeaderPatience, WriteTimeout: answerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(e.config.Logger.Handler(), slog.LevelDebug), // errors of unknown clients are not worth a line each
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true) // the bounds are of connections, and one of HTTP/2 would have many requests
	limited.Track(server)
	return server
}

func (e *Enforcer) serve(server *http.Server, l listening) error {
	e.config.Logger.Info("serves checks and the list", "address", l.Addr().String())
	var err error
	if l.tls {
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving %s: %w", l.Addr(), err)
}

// Address returns the address of the listener, once Run has opened it; empty without one.
func (e *Enforcer) Address() string {
	<-e.serving
	return e.address
}
