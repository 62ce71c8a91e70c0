package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/cmd/internal/config"
	"weir/internal/kafka/embedded"
	"weir/internal/telemetry"
)

// Whole is several parts in one process, which is their broker too where the configuration names none. They are named
// in the order in which requests pass them. Each serves its own addresses. Beside is run with them, from when all are
// open until the context is done; status tells how each of them stands, by its name.
func Whole(beside func(ctx context.Context, p *Process, status func() map[string]any), parts ...Part) Part {
	return Part{
		Name:  "weir",
		About: "collects, counts and enforces in one process, with its own broker and store unless others are named.",
		Admin: func(*config.Config) (address, keys string) { return "", "" },
		Open: func(ctx context.Context, p *Process) (Running, error) {
			w := &whole{process: p, beside: beside}
			if err := w.open(ctx, p, parts); err != nil {
				return nil, errors.Join(err, w.Close())
			}
			return w, nil
		},
	}
}

// A whole is the parts that are open, and their broker.
type whole struct {
	process *Process
	beside  func(context.Context, *Process, func() map[string]any)
	broker  *embedded.Broker        // nil where brokers are elsewhere
	parts   []openPart              // those that requests pass last come first
	giveUp  context.CancelCauseFunc // ends the opening
}

type openPart struct {
	Running
	name    string
	admin   *admin
	process *Process
	early   *early // nil of one that runs from when all are open
}

// An early part runs from when it is open: the others may have to wait, for Kafka or for a disk that is full, and edges ask
// meanwhile.
type early struct {
	stop  context.CancelFunc
	ended chan struct{}
	err   error // once it has ended
}

// runEarly runs a part. When it fails the opening of the others is given up.
func runEarly(ctx context.Context, part Running, giveUp context.CancelCauseFunc) *early {
	e := &early{ended: make(chan struct{})}
	ctx, e.stop = context.WithCancel(ctx)
	go func() {
		defer close(e.ended)
		if e.err = part.Run(ctx); e.err != nil {
			giveUp(e.err)
		}
	}()
	return e
}

// wait waits until it has ended, which the context's end makes it do.
func (e *early) wait(ctx context.Context) error {
	select {
	case <-e.ended:
	case <-ctx.Done():
		e.stop()
		<-e.ended
	}
	return e.err
}

// run runs the part until the context is done.
func (p *openPart) run(ctx context.Context) error {
	if p.early != nil {
		return p.early.wait(ctx)
	}
	return p.Run(ctx)
}

// open opens those parts first that the others' results go to.
func (w *whole) open(ctx context.Context, p *Process, parts []Part) error {
	if p.Config.RuleSet == nil {
		return wrong{errNoRules}
	}
	dial, err := w.openBroker(ctx, p)
	if err != nil {
		return err
	}

	var opening context.Context
	opening, w.giveUp = context.WithCancelCause(ctx)
	metrics := partMetrics(p, parts)
	for i := len(parts) - 1; i >= 0; i-- {
		own := &Process{Config: p.Config, Logger: p.Logger.With("part", parts[i].Name), Metrics: metrics[i].own, Health: telemetry.NewHealth(), Dial: dial,
			hangup: p.hangup, served: metrics[i].served, all: p.all, files: p.files}
		if err := w.openPart(ctx, opening, own, parts[i]); err != nil {
			return fmt.Errorf("%s: %w", parts[i].Name, err)
		}
	}

	return nil
}

// A partRegistry has the metrics of one part, and what its address serves.
type partRegistry struct {
	own    *prometheus.Registry
	served prometheus.Gatherers
}

// partMetrics gives each part a registry. A scraper reads every address and adds up what it finds, so no series may be
// on two of them: those of the process itself are on the first address that there is.
func partMetrics(p *Process, parts []Part) []partRegistry {
	registries := make([]partRegistry, len(parts))
	p.all = prometheus.Gatherers{p.Metrics}
	processServed := false
	for i, part := range parts {
		own := prometheus.NewRegistry()
		registries[i] = partRegistry{own, prometheus.Gatherers{own}}
		p.all = append(p.all, own)

		if address, _ := part.Admin(p.Config); address != "" && !processServed {
			registries[i].served = prometheus.Gatherers{p.Metrics, own}
			processServed = true
		}
	}
	return registries
}

// brokerPatience is how long a command of the tool may have the broker's folder while a process starts on it.
const brokerPatience = time.Minute

// openBroker opens the embedded broker. Commands that look at the folder while no process runs lock it for a moment: that is
// waited for, but not for another process that runs on it.
func (w *whole) openBroker(ctx context.Context, p *Process) (dial func(context.Context, string, string) (net.Conn, error), err error) {
	if len(p.Config.Kafka.Brokers) > 0 {
		return nil, nil
	}
	settings := embedded.Config{Folder: p.Config.BrokerFolder(), SyncWrites: true, Listen: p.Config.BrokerSocket(), Logger: p.Logger}
	for began, waits := time.Now(), false; ; waits = true {
		w.broker, err = embedded.Open(settings)
		if err == nil {
			return w.broker.Dial, nil
		}
		if !errors.Is(err, embedded.ErrInUse) || Listens(settings.Listen) || time.Since(began) > brokerPatience {
			return nil, err
		}
		if !waits {
			p.Logger.Info("a command looks at the broker's folder: waiting until it is done", "folder", settings.Folder)
		}

		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Listens says whether a process answers at a unix socket.
func Listens(socket string) bool {
	probe, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	_ = probe.Close()
	return true
}

// openPart opens a part, which may take as long as the opening lasts, and runs the enforcer at once.
func (w *whole) openPart(ctx, opening context.Context, own *Process, part Part) error {
	served, err := own.serve(part.Admin(own.Config))
	if err != nil {
		return err
	}

	running, err := part.Open(opening, own)
	if err != nil {
		served.close()
		return err
	}

	own.Health.Status(running.Status)
	own.Health.Ready()
	context.AfterFunc(ctx, func() { own.Health.Unready(ending) })
	if w.broker != nil && part.Name != Enforcer.Name { // which serves what it has
		own.keeps(false, "stop weir, put the folder back, or do without what was not counted yet, and start it again", own.Config.BrokerFolder(), "lock")
	}

	one := openPart{Running: running, name: part.Name, admin: served, process: own}
	if part.Name == Enforcer.Name {
		one.early = runEarly(ctx, running, w.giveUp)
	}

	w.parts = append(w.parts, one)
	return nil
}

// Run runs all parts until the context is done, or one of them has failed.
func (w *whole) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(w.parts))
	var running sync.WaitGroup
	running.Go(func() { w.beside(ctx, w.process, w.status) })
	for i, part := range w.parts {
		running.Go(func() { part.process.watchFolders(ctx) })
		running.Go(func() {
			if err := part.run(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", part.name, err)
				cancel()
			}
		})
	}

	running.Wait()
	return errors.Join(errs...)
}

// Reload has every part take what can change while it runs.
func (w *whole) Reload(c *config.Config) error {
	var errs []error
	for _, part := range w.parts {
		errs = append(errs, part.Reload(c))
	}
	return errors.Join(errs...)
}

// Status is that of the parts by their names.
func (w *whole) Status() any { return w.status() }

func (w *whole) status() map[string]any {
	all := map[string]any{}
	for _, part := range w.parts {
		all[part.name] = part.Status()
	}
	return all
}

// Close closes those parts first that requests pass first, and the broker at last.
func (w *whole) Close() error {
	var errs []error
	for i := len(w.parts) - 1; i >= 0; i-- {
		if early := w.parts[i].early; early != nil {
			early.stop()
			<-early.ended
		}
		errs = append(errs, w.parts[i].Close())
		w.parts[i].admin.close()
	}

	if w.broker != nil {
		w.broker.Close()
	}
	if w.giveUp != nil {
		w.giveUp(nil)
	}

	return errors.Join(errs...)
}
