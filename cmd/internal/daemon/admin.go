package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/keys"
	"weir/internal/limited"
	"weir/internal/origin"
	"weir/internal/telemetry"
)

// An admin serves /healthz, /readyz, /status, /metrics and /debug/pprof/. Beyond loopback all but the first two require a
// key of the role read, or a client's certificate. Profiles require the role admin, on loopback too.
type admin struct {
	server *http.Server
	ended  chan struct{}
	faults *telemetry.Faults
}

// serve listens on an address; an empty address serves nothing.
func (p *Process) serve(address, keysFile string) (*admin, error) {
	if address == "" {
		return &admin{}, nil
	}
	known, err := p.keysOf(keysFile)
	if err != nil {
		return nil, exit.Wrong(err)
	}

	secure, err := p.serverTLS(p.adminTLS(address))
	if err != nil {
		return nil, exit.Wrong(err)
	}

	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for status and metrics: %w", limited.InUse(err, p.adminSetting(address)))
	}

	// Without keys and certificates only loopback is safe, and there only from pages of this machine.
	certified := keys.AsksCertificates(secure)
	door := adminDoor{known: known, secure: secure}
	if host, err := netip.ParseAddrPort(listener.Addr().String()); known == nil && !certified {
		if err != nil || !host.Addr().IsLoopback() {
			listener.Close()
			return nil, exit.Wrongf("%s can be reached from other machines without a key or a certificate: add keys, a file of API keys", address)
		}
		door.pages = origin.Loopback(p.Config.Hosts)
	}

	server := &http.Server{
		Handler: p.handler(door), ReadHeaderTimeout: limited.HeaderPatience, ReadTimeout: adminIdle, WriteTimeout: adminIdle, IdleTimeout: adminIdle,
		MaxHeaderBytes: limited.HeaderBytes, ErrorLog: slog.NewLogLogger(p.Logger.Handler(), slog.LevelDebug), // bad requests from strangers must not fill the log
	}
	limited.Track(server)
	a := &admin{server: server, ended: make(chan struct{}), faults: telemetry.NewFaults(p.Logger)}

	// Bounds below TLS: a client that never ends its handshake is bounded too.
	bounds := adminBounds
	bounds.Asks = known != nil || certified
	listener = limited.Listen(listener, bounds, a.noteFull)
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}

	go func() {
		defer close(a.ended)
		if err := a.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.Logger.Error("status and metrics are no longer served", "error", err)
		}
	}()

	p.Logger.Info("serves status and metrics", "address", listener.Addr())
	return a, nil
}

// adminBounds limits the connections of clients that have not shown a key.
var adminBounds = limited.Bounds{Connections: 256, PerAddress: 128}

const adminIdle = 2 * time.Minute // longer than the time between two scrapes

func (a *admin) noteFull(why error) {
	a.faults.Note("connections", fmt.Errorf("status and metrics: %w", why))
}

// adminSetting names the setting of an admin address.
func (p *Process) adminSetting(address string) string {
	switch address {
	case p.Config.Aggregator.Listen:
		return "aggregator.listen"
	case p.Config.Collector.Listen:
		return "collector.listen"
	}
	return "enforcer.admin"
}

// adminTLS returns the settings of TLS for the part that has this admin address.
func (p *Process) adminTLS(address string) config.ServerTLS {
	switch address {
	case p.Config.Enforcer.Admin:
		return p.Config.Enforcer.TLS
	case p.Config.Aggregator.Listen:
		return p.Config.Aggregator.TLS
	case p.Config.Collector.Listen:
		return p.Config.Collector.TLS
	}
	return config.ServerTLS{}
}

func (p *Process) handler(door adminDoor) http.Handler {
	inner := http.NewServeMux()
	p.api = inner
	p.Health.Handle(inner)
	inner.Handle("GET /metrics", p.metrics())

	// Probes have no key, so health is outside of the door.
	outer := http.NewServeMux()
	outer.Handle("/healthz", inner)
	outer.Handle("/readyz", inner)
	outer.Handle("/", door.guard(keys.Read, inner))

	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	outer.Handle("/debug/pprof/", door.guard(keys.Admin, profiles))
	return outer
}

// metrics serves the metrics of the part, or with ?parts=all those of every part of the process.
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

// An adminDoor decides which requests to an admin address are answered.
type adminDoor struct {
	known  *keys.File   // nil without keys
	secure *tls.Config  // nil without encryption
	pages  origin.Pages // the requests of browsers that are answered
}

var errProfiles = errors.New("profiles require an API key of the role admin, on this machine too: set keys next to this address in weir.yaml (weir keys add --name NAME --role admin)")

// guard lets requests with the role through. For reading, a client's certificate is enough, and on loopback without keys
// and certificates nothing is required.
func (d adminDoor) guard(role keys.Role, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = limited.Answer(w)
		if r.ContentLength != 0 { // no body is read here
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(limited.RestPatience)) // the writer of a test has no deadline
		}
		if err := d.pages.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}

		switch err := d.admit(r, role); {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, keys.ErrRole):
			http.Error(w, err.Error(), http.StatusForbidden)
		default:
			http.Error(w, err.Error(), http.StatusUnauthorized)
		}
	})
}

func (d adminDoor) admit(r *http.Request, role keys.Role) error {
	// ErrNone stands for "no key was shown" also where there is no file of keys.
	err := keys.ErrNone
	certified := keys.Certified(r, d.secure)
	if !certified && keys.AsksCertificates(d.secure) {
		return keys.ErrCertificate
	}
	if d.known != nil {
		_, err = d.known.Admit(r, role)
	}
	if err == nil || certified {
		limited.Showed(r.Context())
	}

	switch {
	case !errors.Is(err, keys.ErrNone):
		return err
	case keys.Read.May(role) && (certified || d.known == nil):
		return nil
	case d.known == nil:
		return errProfiles
	}

	return err
}

func (a *admin) close() {
	if a.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.server.Shutdown(ctx) != nil {
		_ = a.server.Close() // requests that are still running are cut off
	}
	<-a.ended
}
