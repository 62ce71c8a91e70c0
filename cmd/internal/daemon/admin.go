package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// An admin serves /healthz, /readyz, /status, /metrics and /debug/pprof/.
type admin struct {
	server *http.Server
	ended  chan struct{}
}

// serve listens; an empty address serves nothing.
func (p *Process) serve(address string) (*admin, error) {
	if address == "" {
		return &admin{}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for status and metrics: %w", err)
	}
	if host, err := netip.ParseAddrPort(listener.Addr().String()); err != nil || !host.Addr().IsLoopback() {
		listener.Close()
		return nil, fmt.Errorf("%s can be reached from other machines: status, metrics and profiles are served on loopback only", address)
	}
	mux := http.NewServeMux()
	p.Health.Handle(mux)
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	a := &admin{&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, make(chan struct{})}
	go func() {
		defer close(a.ended)
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.Logger.Error("status and metrics are not served any more", "error", err)
		}
	}()
	return a, nil
}

func (a *admin) close() {
	if a.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.server.Shutdown(ctx) != nil {
		a.server.Close()
	}
	<-a.ended
}
