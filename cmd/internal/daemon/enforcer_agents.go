package daemon

import (
	"context"
	"io"
	"os"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/haproxy"
	"weir/pkg/enforcer/nftables"
	"weir/pkg/enforcer/outright"
)

// agents returns the agents that copy the list to nftables and HAProxy, each running until its context is done.
func (r *RunningEnforcer) agents() (run []func(context.Context) error) {
	p, c := r.process, &r.process.Config.Enforcer
	list := refusedList{outright.While(r.Refuses, r.set), r.set}
	var faults []func() string
	defer func() { r.agentFaults.Store(&faults) }()
	var dryRun io.Writer
	if c.DryRun {
		dryRun = os.Stdout
	}

	if c.NFTables.On {
		agent := nftables.New(nftables.Config{List: list, Rules: r.Rules, Keep: c.NFTables.AtExit != "clear", DryRun: dryRun, Logger: p.Logger, Metrics: p.Metrics})
		run = append(run, agent.Run)
		faults = append(faults, agent.Fault)
	}

	if c.HAProxy.On() {
		value := haproxy.Until
		if c.HAProxy.Value == "rule" {
			value = haproxy.Rule
		}
		agent := haproxy.New(haproxy.Config{List: list, Rules: r.Rules, Socket: c.HAProxy.Socket, Map: c.HAProxy.Map, Value: value, DryRun: dryRun, Logger: p.Logger, Metrics: p.Metrics})
		run = append(run, agent.Run)
		faults = append(faults, agent.Fault)
	}

	return run
}

// withoutList describes the agents that could not copy the list.
func (r *RunningEnforcer) withoutList() (texts []string) {
	faults := r.agentFaults.Load()
	if faults == nil {
		return nil
	}
	for _, fault := range *faults {
		if why := fault(); why != "" {
			texts = append(texts, "the list is not applied everywhere: "+why)
		}
	}
	return texts
}

// refusedList is the list, empty while nothing is refused.
type refusedList struct {
	outright.List
	set *blocklist.Set
}

// Changed returns a channel that is closed at the next change.
func (l refusedList) Changed() <-chan struct{} { return l.set.Changed() }
