package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/cmd/internal/config"
	"weir/internal/keys"
)

// An admin serves /healthz, /readyz, /status, /metrics and /debug/pprof/. Beyond loopback all but the first two want a
// key: the role read, for profiles the role admin.
type admin struct {
	server *http.Server
	ended  chan struct{}
}

// serve listens; an empty address serves nothing.
func (p *Process) serve(address, keysFile string) (*admin, error) {
	if address == "" {
		return &admin{}, nil
	}
	known, err := p.keysOf(keysFile)
	if err != nil {
		return nil, wrong{err}
	}
	secure, err := p.serverTLS(p.adminTLS(address))
	if err != nil {
		return nil, wrong{err}
	}
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listening for status and metrics: %w: it is running already (weir status), or needs another address in weir.yaml", err)
	}
	if err != nil {
		return nil, fmt.Errorf("listening for status and metrics: %w", err)
	}
	guarded := known != nil || secure != nil && secure.ClientAuth == tls.RequireAndVerifyClientCert
	if host, err := netip.ParseAddrPort(listener.Addr().String()); !guarded && (err != nil || !host.Addr().IsLoopback()) {
		listener.Close()
		return nil, wrong{fmt.Errorf("%s can be reached from other machines, and nobody there is asked who they are: add keys, a file of API keys", address)}
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	a := &admin{&http.Server{Handler: p.handler(known), ReadHeaderTimeout: 10 * time.Second}, make(chan struct{})}
	go func() {
		defer close(a.ended)
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.Logger.Error("status and metrics are not served any more", "error", err)
		}
	}()
	p.Logger.Info("serves status and metrics", "address", listener.Addr())
	return a, nil
}

// adminTLS is how the address is encrypted: the enforcer's is as the one where it serves.
func (p *Process) adminTLS(address string) config.ServerTLS {
	if address == p.Config.Enforcer.Admin {
		return p.Config.Enforcer.TLS
	}
	return config.ServerTLS{}
}

func (p *Process) handler(known *keys.File) http.Handler {
	inner := http.NewServeMux()
	p.api = inner
	p.Health.Handle(inner)
	inner.Handle("GET /metrics", p.metrics())
	outer := http.NewServeMux()
	outer.Handle("/healthz", inner)
	outer.Handle("/readyz", inner)
	outer.Handle("/", guarded(known, keys.Read, inner))
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	outer.Handle("/debug/pprof/", guarded(known, keys.Admin, profiles))
	return outer
}

// metrics serves those of the part, or with ?parts=all those of every part of the process.
func (p *Process) metrics() http.Handler {
	own := promhttp.HandlerFor(orOwn(p.served, p.Metrics), promhttp.HandlerOpts{})
	all := promhttp.HandlerFor(p.Gatherer(), promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("parts") == "all" {
			all.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// guarded lets through who has the role; without keys that is everyone, on loopback.
func guarded(known *keys.File, role keys.Role, next http.Handler) http.Handler {
	if known == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, err := known.Admit(r, role); {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, keys.ErrRole):
			http.Error(w, err.Error(), http.StatusForbidden)
		default:
			http.Error(w, err.Error(), http.StatusUnauthorized)
		}
	})
}

func (a *admin) close() {
	if a.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.server.Shutdown(ctx) != nil {
		_ = a.server.Close() // what is still being served is cut off
	}
	<-a.ended
}
