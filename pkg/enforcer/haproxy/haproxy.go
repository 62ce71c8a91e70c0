// Package haproxy keeps the addresses of the blocklist in a map of a running HAProxy, through its runtime API.
//
// An [Agent] owns one map, by the name of its file in HAProxy's configuration: what package outright gives, disjoint as
// package cidr makes it, each prefix with the end of its block (Unix seconds, rounded up) or the rule's name. A whole list goes into a
// new version of the map that is swapped in at once; few changes are added to and taken from the version in force, first
// added, so that nothing of a block that is split is let in. Commands are of payloadBytes at most, and the answer to each is
// checked.
//
// The map's file is written too, by renaming, within a second of a change: with it HAProxy begins after a reload. It is made
// where it is missing, since HAProxy does not start without. Each second HAProxy is asked which process it is and how
// many entries the map has; with another process, or another number, the whole list is swapped in. A change by others
// that leaves the number as it was is found at the next whole list only. While the list is not whole nothing is changed.
//
// What has ended is taken out within a second. Where nobody is left to do that a configuration that compares the end itself goes
// on alone (docs/agents.md has it).
//
// Nothing here ends the process: while HAProxy is away that is said once a minute and tried each second. Run starts no
// goroutines. It opens a connection for each command, one after the other, and gives each answerPatience.
package haproxy

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/enforcer/cidr"
	"weir/pkg/rule"
)

// Config is an Agent's.
type Config struct {
	List   cidr.List
	Rules  func() *rule.Set // those in force, nil for none; asked each second
	Socket string           // the path of the runtime API's socket, or its host:port
	Map    string           // the map's file, named as in HAProxy's configuration
	Value  Value
	// DryRun, where it is given, is told the commands that would be sent, and nothing is sent or written.
	DryRun  io.Writer
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil for none
}

// A Value is what the map says of a prefix.
type Value uint8

// The values.
const (
	Until Value = iota // the end of its block, in Unix seconds
	Rule               // the name of the rule that blocks it
)

const checkEvery = time.Second

// An Agent keeps the map as the list says.
type Agent struct {
	c       Config
	faults  *telemetry.Faults
	metrics *metrics
	wanted  *cidr.Wanted
	runtime runtime

	have     []cidr.Block // what the map has, as far as we know
	instance string       // of the process that has it; empty when we do not know
	file     file
}

// New makes one.
func New(c Config) *Agent {
	a := &Agent{c: c, faults: telemetry.NewFaults(c.Logger), metrics: newMetrics(c.Metrics), wanted: cidr.NewWanted(c.List), file: file{path: c.Map}}
	a.runtime = &connections{address: c.Socket}
	if c.DryRun != nil {
		a.runtime = &telling{to: c.DryRun}
	}
	return a
}

// Run keeps the map until ctx ends, and leaves it as it is. It has no error.
func (a *Agent) Run(ctx context.Context) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		a.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-a.wanted.Changed():
			rest(ctx, min(a.wanted.Rests(), checkEvery/4)) // HAProxy's reload must not wait longer
		case <-tick.C:
		}
	}
}

// rest waits unless ctx ends before.
func rest(ctx context.Context, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// round looks once whether all is as it should be, and puts it right.
func (a *Agent) round(ctx context.Context) {
	var rules *rule.Set
	if a.c.Rules != nil {
		rules = a.c.Rules()
	}

	renewed := a.wanted.Renew(rules, time.Now())
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
	a.note(fileOperation, a.unlessDry(func() error { return a.file.write(want, a.c.Value) }))
}

func (a *Agent) unlessDry(do func() error) error {
	if a.c.DryRun != nil {
		return nil
	}
	return do()
}

// The operations whose faults are said.
const (
	fileOperation    = "haproxy map file"
	runtimeOperation = "haproxy"
)

func (a *Agent) note(operation string, err error) {
	if err == nil {
		a.faults.Over(operation)
		return
	}
	a.metrics.fault(operation, err)
	a.faults.Note(operation, err)
}

// sync makes the map what is wanted.
func (a *Agent) sync(ctx context.Context, want []cidr.Block, renewed bool) error {
	now, err := a.state(ctx)
	if err != nil {
		return err
	}

	known := a.instance != ""
	same := now.instance == a.instance && (now.entries == len(a.have) || now.entries < 0)
	if known && !same {
		a.tellDifference(now)
	}

	a.instance = "" // until all has gone well
	switch {
	case !same:
		err = a.replace(ctx, want)
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

// tellDifference says what was found.
func (a *Agent) tellDifference(now state) {
	if now.instance != a.instance {
		a.metrics.restarts.Inc()
		a.c.Logger.Info("HAProxy was reloaded or restarted; it gets the list anew", "map", a.c.Map)
		return
	}
	a.metrics.differences.Inc()
	a.faults.Note("haproxy map", fmt.Errorf("someone else changed HAProxy's map %s: %d entries where %d are right; it gets the list anew",
		a.c.Map, now.entries, len(a.have)))
}
