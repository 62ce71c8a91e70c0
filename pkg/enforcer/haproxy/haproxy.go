// Package haproxy keeps the addresses of the blocklist in a map of a running HAProxy, through its runtime API.
//
// An [Agent] owns one map, named by its file in HAProxy's configuration. The map contains the result of package
// outright, made disjoint by package cidr, each prefix with the end of its block (Unix seconds, rounded up) or the
// rule's name. A complete list goes into a new version of the map that is swapped in at once. Few changes are made in
// the active version, additions first, so that no part of a split block is let in, and only for as long as a swap takes.
// Commands are of payloadBytes at most, and the answer to each is checked.
//
// The map's file is written too, by renaming, within a second of a change: HAProxy reads it after a reload. A missing
// file is created, because HAProxy does not start without it. Each second the agent asks HAProxy for its process and
// the number of entries in the map. When either has changed, the complete list is swapped in. A change by another
// program that keeps the number is found only with the next complete list. While the list is not complete nothing is
// changed.
//
// Ended blocks are removed within a second. A configuration that compares the end itself needs no agent for that
// (docs/agents.md has it).
//
// Nothing here ends the process: while HAProxy is away the agent tries each second and logs it once a minute. Run
// starts no goroutines. It opens a connection for each command, one after the other, and waits for each at most
// answerPatience.
package haproxy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/pkg/enforcer/cidr"
	"weir/pkg/rule"
)

// Config configures an Agent.
type Config struct {
	List   cidr.List
	Rules  func() *rule.Set // the active rules, nil for none; called each second
	Socket string           // the path of the runtime API's socket, or its host:port
	Map    string           // the map's file, named as in HAProxy's configuration
	Value  Value
	// DryRun, if set, receives the commands, and nothing is sent or written.
	DryRun  io.Writer
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil for none
}

// A Value selects the values in the map.
type Value uint8

// The values.
const (
	Until Value = iota // the end of its block, in Unix seconds
	Rule               // the name of the rule that blocks it
)

const checkEvery = time.Second

// An Agent keeps the map equal to the list.
type Agent struct {
	c       Config
	faults  *telemetry.Faults
	metrics *metrics
	wanted  *cidr.Wanted
	runtime runtime

	have     []cidr.Block // the map's blocks, if known
	instance string       // of the process with these blocks; empty when unknown
	file     file
}

// New makes one.
func New(c Config) *Agent {
	a := &Agent{c: c, faults: telemetry.NewFaults(c.Logger), metrics: newMetrics(c.Metrics), wanted: cidr.NewWanted(c.List, c.Rules), file: file{path: c.Map}}
	a.runtime = &connections{address: c.Socket}
	if c.DryRun != nil {
		a.runtime = &dryRun{to: c.DryRun}
	}
	return a
}

// Fault describes why HAProxy, or the file that it reads at its start, does not have the list; empty when they have. Any
// goroutine may ask.
func (a *Agent) Fault() string {
	return cmp.Or(a.faults.Lasts(runtimeOperation), a.faults.Lasts(fileOperation))
}

// Run keeps the map until ctx ends, and leaves it as it is. It returns no error.
func (a *Agent) Run(ctx context.Context) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		a.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-a.wanted.Changed():
			sleep.For(ctx, min(a.wanted.Rests(), checkEvery/4)) // the check for a reload of HAProxy must not wait longer
		case <-tick.C:
		}
	}
}

// round checks the map once, and corrects it.
func (a *Agent) round(ctx context.Context) {
	renewed := a.wanted.Renew(time.Now())
	// HAProxy does not start without the file, so it is made even now.
	if !a.wanted.Whole() {
		a.note(fileOperation, a.unlessDry(a.file.exists))
		return
	}

	want := cidr.Alive(a.wanted.Blocks(), time.Now().UnixMilli())
	err := a.sync(ctx, want, renewed)
	if ctx.Err() != nil {
		return
	}

	a.note(runtimeOperation, err)

	// The file is written also when HAProxy does not answer: it may be starting, and reads the file then.
	a.note(fileOperation, a.unlessDry(func() error { return a.file.write(want, a.c.Value) }))
}

func (a *Agent) unlessDry(do func() error) error {
	if a.c.DryRun != nil {
		return nil
	}
	return do()
}

// The operations whose errors are logged.
const (
	fileOperation    = "haproxy map file"
	runtimeOperation = "haproxy"
)

func (a *Agent) note(operation string, err error) {
	if err == nil {
		a.faults.Over(operation)
		return
	}
	a.metrics.countError(operation, err)
	a.faults.Note(operation, err)
}

// sync applies the wanted blocks to the map.
func (a *Agent) sync(ctx context.Context, want []cidr.Block, renewed bool) error {
	now, err := a.state(ctx)
	if err != nil {
		return err
	}

	known := a.instance != ""
	same := now.instance == a.instance && (now.entries == len(a.have) || now.entries < 0)
	if known && !same {
		a.logDifference(now)
	}

	a.instance = "" // until everything has succeeded
	switch {
	case !same:
		err = a.replace(ctx, want)
	// Blocks end by the clock too: then want is shorter, though nothing was renewed.
	case renewed || len(want) != len(a.have):
		err = a.change(ctx, want)
	}

	if err != nil {
		return err
	}
	a.instance, a.have = now.instance, want
	a.metrics.entries.Set(float64(len(want)))
	return nil
}

// logDifference logs the reason for a new version of the map.
func (a *Agent) logDifference(now state) {
	if now.instance != a.instance {
		a.metrics.restarts.Inc()
		a.c.Logger.Info("HAProxy was reloaded or restarted; it gets the complete list again", "map", a.c.Map)
		return
	}
	a.metrics.differences.Inc()
	a.faults.Note("haproxy map", fmt.Errorf("another program changed HAProxy's map %s: it has %d entries instead of %d, and gets the complete list again",
		a.c.Map, now.entries, len(a.have)))
}
