package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/telemetry"
)

// AllInOne makes a part that runs several parts in one process, with topics of its own unless the configuration names
// brokers. The parts are given in the order in which requests pass them, and each serves its own addresses. companion runs
// next to them, from when all are open until the context is done; status returns each part's status by its name.
func AllInOne(companion func(ctx context.Context, p *Process, status func() map[string]any), parts ...Part) Part {
	return Part{
		Name:  "weir",
		About: "collects, counts and enforces in one process, with its own store unless others are named.",
		Admin: func(*config.Config) (address, keys string) { return "", "" },
		Open: func(ctx context.Context, p *Process) (Running, error) {
			w := &allInOne{process: p, companion: companion}
			if err := w.open(ctx, p, parts); err != nil {
				return nil, errors.Join(err, w.Close())
			}
			return w, nil
		},
	}
}

// An allInOne contains the parts that are open, and their database.
type allInOne struct {
	process   *Process
	companion func(context.Context, *Process, func() map[string]any)
	local     *Local                  // nil when the configuration names brokers
	parts     []openPart              // in the order of opening: the last part that requests pass comes first
	admins    []*admin                // of all parts, also of those that are not open yet
	giveUp    context.CancelCauseFunc // ends the opening
}

type openPart struct {
	Running
	name    string
	admin   *admin
	process *Process
	early   *early // nil for a part that starts to run when all are open
}

// An early part runs as soon as it is open: edges need answers while the other parts may wait for Kafka or a full disk.
type early struct {
	stop  context.CancelFunc
	ended chan struct{}
	err   error // set before ended is closed
}

// runEarly runs a part. When the part fails, the opening of the others ends.
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

// wait waits until the part has ended. When the context is done it stops the part first.
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

// open opens the parts in reverse order, so that each part's results have somewhere to go.
func (w *allInOne) open(ctx context.Context, p *Process, parts []Part) error {
	if p.Config.RuleSet == nil {
		return exit.Wrong(errNoRules)
	}
	if len(p.Config.Kafka.Brokers) == 0 {
		opened, err := p.openLocal(ctx)
		if err != nil {
			return err
		}
		w.local = opened
	}

	var opening context.Context
	opening, w.giveUp = context.WithCancelCause(ctx)
	processes, err := w.serveAll(p, parts)
	if err != nil {
		return err
	}
	for i := len(parts) - 1; i >= 0; i-- {
		if err := w.openPart(ctx, opening, processes[i], w.admins[i], parts[i]); err != nil {
			return fmt.Errorf("%s: %w", parts[i].Name, err)
		}
	}

	return nil
}

// serveAll makes the process of each part and serves its address. This comes before any part is opened: one that waits,
// such as for room on the disk, delays the others, and their health can be asked meanwhile.
func (w *allInOne) serveAll(p *Process, parts []Part) ([]*Process, error) {
	metrics := partMetrics(p, parts)
	var processes []*Process
	for i, part := range parts {
		// Each part has health, metrics and a log of its own. They share what a process has once: signals and watched
		// files.
		own := &Process{Config: p.Config, Logger: p.Logger.With("part", part.Name), Metrics: metrics[i].own, Health: telemetry.NewHealth(), Local: w.local,
			part: part.Name, hangup: p.hangup, served: metrics[i].served, all: p.all, files: p.files}
		if i+1 < len(parts) {
			own.Health.Unready("starting: waits until the " + parts[i+1].Name + " is open")
		}
		served, err := own.serve(part.Admin(own.Config))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.Name, err)
		}
		processes, w.admins = append(processes, own), append(w.admins, served)
	}
	for _, one := range processes {
		one.others = processes
	}
	return processes, nil
}

// A partRegistry contains the metrics of one part, and those that its address serves.
type partRegistry struct {
	own    *prometheus.Registry
	served prometheus.Gatherers
}

// partMetrics gives each part a registry. A scraper reads every address and adds up the series, so no series may be on two
// of them. The series of the process itself are on the first address that exists.
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

// openPart opens a part, for which it may wait until opening is done, and runs the enforcer at once.
func (w *allInOne) openPart(ctx, opening context.Context, own *Process, served *admin, part Part) error {
	own.Health.Unready("starting")
	running, err := part.Open(opening, own)
	if err != nil {
		return err
	}

	own.Health.Status(own.files.withConfiguration(running.Status))
	own.Health.Ready()
	context.AfterFunc(ctx, func() { own.Health.Unready(ending) })

	one := openPart{Running: running, name: part.Name, admin: served, process: own}
	if part.Name == Enforcer.Name {
		one.early = runEarly(ctx, running, w.giveUp)
	}

	w.parts = append(w.parts, one)
	return nil
}

// Run runs all parts until the context is done or one of them has failed.
func (w *allInOne) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(w.parts))
	var running sync.WaitGroup
	running.Go(func() { w.companion(ctx, w.process, w.status) })
	for i, part := range w.parts {
		// One part that ends, for any reason, ends all: a process with a missing part would look alive.
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

// Reload reloads every part. The files that the parts read are read before that, so a faulty one leaves all parts as they
// are.
func (w *allInOne) Reload(c *config.Config) error {
	if err := readable(c); err != nil {
		return err
	}
	var errs []error
	for _, part := range w.parts {
		errs = append(errs, part.Reload(c))
	}
	return errors.Join(errs...)
}

// Status returns the parts' statuses by their names.
func (w *allInOne) Status() any { return w.status() }

func (w *allInOne) status() map[string]any {
	all := map[string]any{}
	for _, part := range w.parts {
		all[part.name] = part.Status()
	}
	return all
}

// Close closes the parts in the order in which requests pass them, then the topics.
func (w *allInOne) Close() error {
	var errs []error
	for i := len(w.parts) - 1; i >= 0; i-- {
		if early := w.parts[i].early; early != nil {
			early.stop()
			<-early.ended
		}
		errs = append(errs, w.parts[i].Close())
		w.parts[i].admin.close()
	}
	for _, admin := range w.admins[:max(0, len(w.admins)-len(w.parts))] {
		admin.close() // of a part that was not opened
	}

	// The database comes last: the parts use it until they are closed.
	if w.local != nil {
		w.local.Close()
	}
	if w.giveUp != nil {
		w.giveUp(nil)
	}

	return errors.Join(errs...)
}
