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

// agents are those who keep the list where edges cannot ask for it, each until its context is done.
func (r *RunningEnforcer) agents() (run []func(context.Context) error) {
	p, c := r.process, &r.process.Config.Enforcer
	list := refusedList{outright.While(r.Refuses, r.set), r.set}
	var tell io.Writer
	if c.DryRun {
		tell = os.Stdout
	}

	if c.NFTables.On {
		agent := nftables.New(nftables.Config{List: list, Rules: r.Rules, Keep: c.NFTables.AtExit != "clear", DryRun: tell, Logger: p.Logger, Metrics: p.Metrics})
		run = append(run, agent.Run)
	}

	if c.HAProxy.On() {
		value := haproxy.Until
		if c.HAProxy.Value == "rule" {
			value = haproxy.Rule
		}
		agent := haproxy.New(haproxy.Config{List: list, Rules: r.Rules, Socket: c.HAProxy.Socket, Map: c.HAProxy.Map, Value: value, DryRun: tell, Logger: p.Logger, Metrics: p.Metrics})
		run = append(run, agent.Run)
	}

	return run
}

// refusedList is the list while it is enforced.
type refusedList struct {
	outright.List
	set *blocklist.Set
}

// Changed is closed at the next change.
func (l refusedList) Changed() <-chan struct{} { return l.set.Changed() }
