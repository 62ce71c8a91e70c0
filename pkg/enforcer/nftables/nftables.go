// Package nftables keeps the addresses of the blocklist in Linux's own firewall, for edges that cannot ask.
//
// An [Agent] owns the table inet weir and nothing else: two sets, blocked4 and blocked6, of intervals with timeouts, and two
// chains, on the hooks input and forward with a priority before that of filters, which drop the packets of sources in
// the sets. In the sets is what package outright gives (entries in force whose key is an address or a prefix alone, of
// rules that cover everything, and blocks by hand, without what is allowed), disjoint as package cidr makes it. Every
// element has a timeout to the end of its block, so that blocks end even where nobody is left to end them.
//
// A change of the list is in the kernel with the next transaction, at once when nothing is under way. Up to
// transactionElements changes are one transaction: in force as a whole or not at all. More are several: first what is
// gone, then what is new. While the list is not whole nothing is changed in the kernel.
//
// What others do to the table (a flush, the reload of a firewall) is put right within a second. The kernel tells of each
// change of its rules, and is asked each second for their generation; only when someone has touched our table, or it is
// not known, the sets are read and compared. An end that is off by less than endSlack is left as it is.
//
// Nothing here ends the process: what the kernel refuses is said once a minute with its remedy and tried again, after a
// second at first and every 15 in the end. Run starts one goroutine that reads what the kernel tells, and returns when it
// has ended; it blocks while the kernel works on a transaction. An Agent takes some 120 bytes for an element, twice while the list
// changes, and of a core a quarter at most for a list that changes all the time.
package nftables

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/enforcer/cidr"
	"weir/pkg/rule"
)

// Config is an Agent's.
type Config struct {
	List  cidr.List
	Rules func() *rule.Set // those in force, nil for none; asked each second
	// Keep leaves the table when Run ends; its elements end by their timeouts. Otherwise it is deleted.
	Keep bool
	// DryRun, where it is given, is told in nft's words what would be done, and nothing is done.
	DryRun  io.Writer
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil for none
}

const (
	checkEvery = time.Second
	slowestTry = 15 * time.Second
	// endSlack is by how much an element's end may be off: clocks that are set, and what a transaction takes.
	endSlack = 2 * time.Second
)

// An Agent keeps the kernel's table as the list says.
type Agent struct {
	c       Config
	faults  *telemetry.Faults
	metrics *metrics
	wanted  *cidr.Wanted
	want    []cidr.Block // of wanted, without the rules: the kernel knows none

	have   []cidr.Block // what the kernel has, as far as we know
	known  bool         // we know
	synced bool         // in this session it once had what was wanted
}

// New makes one.
func New(c Config) *Agent {
	return &Agent{c: c, faults: telemetry.NewFaults(c.Logger), metrics: newMetrics(c.Metrics), wanted: cidr.NewWanted(c.List)}
}

// Run keeps the table until ctx ends, and then keeps or deletes it. It has no error.
func (a *Agent) Run(ctx context.Context) error {
	for patience := checkEvery; ctx.Err() == nil; {
		worked, err := a.session(ctx)
		if err != nil {
			a.metrics.fault(err)
			a.faults.Note("nftables", err)
		}
		if worked {
			patience = checkEvery
		}
		rest(ctx, patience)
		patience = min(2*patience, slowestTry)
	}

	return nil
}

// session keeps the table until ctx ends or the kernel refuses something. It says whether anything worked.
func (a *Agent) session(ctx context.Context) (worked bool, err error) {
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
			rest(ctx, min(a.wanted.Rests(), checkEvery/4)) // what others do to the table must not wait longer
		case <-tick.C:
		case <-t.touched():
		}
	}

	return true, a.leave(t)
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

// leave is what is done at the end.
func (a *Agent) leave(t table) error {
	if a.c.Keep {
		return nil
	}
	return t.remove()
}

// round looks once whether all is as it should be, and puts it right.
func (a *Agent) round(t table) error {
	renewed := a.wanted.Renew(a.rules(), time.Now())
	if !a.wanted.Whole() {
		return nil
	}

	if renewed {
		a.want = slices.Clone(a.wanted.Blocks())
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

func (a *Agent) rules() *rule.Set {
	if a.c.Rules == nil {
		return nil
	}
	return a.c.Rules()
}

// settle puts the kernel right: by what we know of it, else by what is read, else all anew.
func (a *Agent) settle(t table) error {
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

// step makes the kernel what is wanted, and reads before what it has where we do not know.
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
		a.tellDifferences(read, intact, now)
	}

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
	a.metrics.hold(want)
	return nil
}

// tellDifferences says what others have changed.
func (a *Agent) tellDifferences(read []cidr.Block, intact bool, now int64) {
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
	a.faults.Note("table", fmt.Errorf("someone else changed the table inet weir: %d differences are put right", count))
}

// snap takes over the ends that are off by no more than the slack. Both are sorted.
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
