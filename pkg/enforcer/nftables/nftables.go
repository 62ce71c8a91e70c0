// Package nftables keeps the addresses of the blocklist in Linux's own firewall, for edges that cannot send checks.
//
// An [Agent] owns the table inet weir and nothing else: two sets, blocked4 and blocked6, of intervals with timeouts,
// and two chains, on the hooks input and forward with a priority before that of filters, which drop the packets of
// sources in the sets, of IPv6 all but ICMPv6, and none that come from the machine itself. The sets contain the result
// of package outright (active entries whose key is just an address or a prefix, of rules that cover everything, and
// blocks by hand, without allowed addresses), made disjoint by package cidr. Every element has a timeout to the end of
// its block, so that blocks end even without the enforcer.
//
// A change of the list is in the kernel with the next transaction, at once when nothing is under way. Up to
// transactionElements changes are one transaction, which the kernel applies completely or not at all. More changes are
// several transactions: first removals, then additions. While the list is not complete nothing is changed in the
// kernel.
//
// Changes by other programs (a flush, the reload of a firewall) are undone within a second. The kernel reports each
// change of its rules, and the agent asks each second for their generation. It reads and compares the sets only when
// another program has touched our table, or when that is unknown. An end that is off by less than endSlack stays as it
// is.
//
// Nothing here ends the process. A refusal of the kernel is logged once a minute with its remedy and tried again, after
// a second at first and every 15 in the end. Run starts one goroutine that reads the kernel's reports, and returns when
// it has ended; it blocks while the kernel works on a transaction. An Agent takes some 120 bytes for an element, twice
// while the list changes, and at most a quarter of a core for a list that changes all the time.
package nftables

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/pkg/enforcer/cidr"
	"weir/pkg/rule"
)

// Config configures an Agent.
type Config struct {
	List  cidr.List
	Rules func() *rule.Set // the active rules, nil for none; called each second
	// Keep leaves the table when Run ends; its elements end by their timeouts. Without Keep the table is deleted.
	Keep bool
	// DryRun, if set, receives the changes in nft's language, and nothing is changed.
	DryRun  io.Writer
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil for none
}

const (
	checkEvery = time.Second
	slowestTry = 15 * time.Second
	// endSlack is the tolerance for an element's end: for clock changes, and for the duration of a transaction.
	endSlack = 2 * time.Second
)

// An Agent keeps the kernel's table equal to the list.
type Agent struct {
	c       Config
	faults  *telemetry.Faults
	metrics *metrics
	wanted  *cidr.Wanted
	want    []cidr.Block // of wanted, without the rules, which the kernel does not know

	have   []cidr.Block // the kernel's elements, if known
	known  bool         // whether have is right
	synced bool         // the table was complete once in this session
}

// New makes one.
func New(c Config) *Agent {
	return &Agent{c: c, faults: telemetry.NewFaults(c.Logger), metrics: newMetrics(c.Metrics), wanted: cidr.NewWanted(c.List, c.Rules)}
}

// Fault describes why the kernel does not have the list; empty when it has. Any goroutine may ask.
func (a *Agent) Fault() string { return a.faults.Lasts("nftables") }

// Run keeps the table until ctx ends, and then keeps or deletes it. It returns no error.
func (a *Agent) Run(ctx context.Context) error {
	for patience := checkEvery; ctx.Err() == nil; {
		worked, err := a.session(ctx)
		if err != nil {
			a.metrics.countError(err)
			a.faults.Note("nftables", err)
		}
		if worked {
			patience = checkEvery
		}
		sleep.For(ctx, patience)
		patience = min(2*patience, slowestTry)
	}

	return nil
}

// session keeps the table until ctx ends or the kernel refuses something. It returns whether anything worked.
func (a *Agent) session(ctx context.Context) (worked bool, err error) {
	// The reports of changes begin with this session: what happened before is not known.
	a.known, a.synced = false, false
	t, err := a.open()
	if err != nil {
		return false, err
	}
	defer t.close()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := a.round(t); err != nil {
			return worked, err
		}
		worked = true
		select {
		case <-ctx.Done():
		case <-a.wanted.Changed():
			sleep.For(ctx, min(a.wanted.Rests(), checkEvery/4)) // changes by other programs must not wait longer
		case <-tick.C:
		case <-t.touched():
		}
	}

	if a.c.Keep {
		return true, nil
	}
	return true, t.remove()
}

// round checks the table once, and corrects it.
func (a *Agent) round(t table) error {
	renewed := a.wanted.Renew(time.Now())
	if !a.wanted.Whole() {
		return nil
	}

	if renewed {
		a.want = slices.Clone(a.wanted.Blocks())

		// A change of only the rule must not look like a change in the kernel.
		for i := range a.want {
			a.want[i].Rule = ""
		}
	}

	if a.known {
		untouched, err := t.untouched()
		if err != nil {
			return err
		}
		a.known = untouched
	}

	if a.known && !renewed {
		return nil
	}
	if err := a.settle(t); err != nil {
		return err
	}

	a.synced = true
	a.faults.Over("nftables")
	return nil
}

// settle corrects the kernel's table: from the known elements, else after reading them, else by creating the table
// again.
func (a *Agent) settle(t table) error {
	// Three tries, each with less trust: in what is known, in what the kernel has, in nothing. Without the permission
	// none of them would work.
	err := a.step(t)
	if err != nil && !notPermitted(err) {
		a.known = false
		err = a.step(t)
	}
	if err != nil && !notPermitted(err) {
		a.have, a.known = nil, true
		err = a.commit(t, true)
	}
	a.known = err == nil
	return err
}

// step applies the wanted blocks to the kernel, and first reads its elements if they are unknown.
func (a *Agent) step(t table) error {
	if a.known {
		return a.commit(t, false)
	}
	read, intact, err := t.read()
	if err != nil {
		return err
	}

	now := time.Now().UnixMilli()
	if a.synced {
		a.logDifferences(read, intact, now)
	}

	// The kernel counts the time that is left, so ends that are read back are never exact.
	snap(read, a.want)
	a.have, a.known = read, true
	return a.commit(t, !intact)
}

func (a *Agent) commit(t table, anew bool) error {
	now := time.Now().UnixMilli()
	want := cidr.Alive(a.want, now)
	if err := t.commit(planned(a.have, want, anew, now)); err != nil {
		return err
	}
	a.have = want
	a.metrics.setBlocks(want)
	return nil
}

// logDifferences logs changes by other programs.
func (a *Agent) logDifferences(read []cidr.Block, intact bool, now int64) {
	before := cidr.Alive(a.have, now)
	snap(read, before)
	gone, come, changed := cidr.Diff(read, before)
	count := len(gone) + len(come) + len(changed)
	if !intact {
		count++
	}
	if count == 0 {
		return
	}
	a.metrics.repaired(count)
	a.faults.Note("table", fmt.Errorf("another program changed the table inet weir: %d differences are corrected", count))
}

// snap copies ends that differ by no more than the slack. Both lists are sorted.
func snap(read, as []cidr.Block) {
	for i := range read {
		for len(as) > 0 && cidr.Compare(as[0], read[i]) < 0 {
			as = as[1:]
		}
		if len(as) == 0 {
			return
		}
		off := time.Duration(read[i].Until-as[0].Until) * time.Millisecond
		if as[0].Prefix == read[i].Prefix && off.Abs() <= endSlack {
			read[i].Until = as[0].Until
		}
	}
}
