package enforcer

import (
	"net/http"
	"net/netip"
	"time"

	"weir/pkg/blocklist"
)

// byWeir is the author of manual entries that no person has made.
const byWeir = "weir"

var errOutboxForPeople = problemf(http.StatusServiceUnavailable, "%d orders wait to be sent: the rest of the room is for those of people", maxParcels/2)

// AllowCrawler lets an address through until a time (Unix milliseconds), as if a person had allowed it. It fails when Run
// ends, and without topics for manual entries. Enforcers that allow an address in the same minute make one entry.
func (e *Enforcer) AllowCrawler(client netip.Addr, until int64, why string) error {
	if !e.endings.TryRLock() { // only Run locks it
		return errEnds
	}
	defer e.endings.RUnlock()
	if e.outbox == nil {
		return problemf(http.StatusConflict, "this enforcer has no topics for manual entries")
	}
	if e.outbox.held.Load() > maxParcels/2 { // the rest is for people
		return errOutboxForPeople
	}

	o := &ordering{by: byWeir, now: e.config.Now().UnixMilli()}
	minute := o.now - o.now%time.Minute.Milliseconds()
	order := &blocklist.Order{ID: blocklist.ID(blocklist.ManualRule, client.String(), minute, int(blocklist.OrderAllow)), Kind: blocklist.OrderAllow,
		Scope: "ip", Value: client.String(), From: o.now, Until: until, By: o.by, Why: why}
	if err := checkOrder(order); err != nil {
		return err
	}
	o.add(blocklist.EventOrdered, order)
	_, err := e.apply(o)
	return err
}
