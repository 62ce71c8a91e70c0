package blocklist

import (
	"bytes"
	"errors"
)

// Orders are stored like entries, and indexed too: prefixes are found by addresses, pauses by rules, and pardons stand
// in the flags of their entries.

// errOutdated reports an order that is older than the current one of its target. An enforcer that could not reach the
// topics sends its orders late, and meanwhile others may have given newer ones.
var errOutdated = errors.New("the current order of the target is newer")

// clockSkew is how far an order's time may be ahead of this clock. One that is further ahead was given by a wrong clock,
// and the next order replaces it, whatever its time. By default a broker takes records that are ahead of its own clock by
// an hour, and this clock may be behind by as much.
const clockSkew = int64(2 * 60 * 60_000)

// newerThan reports whether an order is newer than another one of the same target.
func (h Held) newerThan(o *Order, now int64) bool {
	if !h.Found() || h.Until() <= now {
		return false
	}
	at := h.Order().given()
	return at > o.given() && at <= now+clockSkew
}

func (c *content) applyOrder(change Change, now int64) error {
	o, err := decodeOrder(change.Key, change.Value)
	if err != nil {
		return err
	}

	rule, key, _ := splitKey(change.Key)
	old := c.get(string(rule), key)
	if old.Found() && bytes.Equal(old.record.value(), change.Value) {
		return nil
	}
	if old.newerThan(o, now) {
		return errOutdated
	}

	// The old order leaves the indexes before the new one enters: both have the same place in them.
	c.forget(string(rule), key)
	h := head{until: keepUntil(o.Until, o.Ended), flags: heldOrder | byte(o.Kind)<<heldKindBit}
	if o.Ended != 0 {
		// It is kept for a while, so that older orders of its target, which may still come, change nothing.
		h.until, h.flags = max(h.until, o.Ended+endedLasts), h.flags|heldEnded
	}
	if h.until <= now {
		return nil
	}
	if _, err := c.hold(Held{}, h, string(rule), key, change.Value); err != nil || o.Ended != 0 {
		return err
	}
	return c.index(o, change.Key, now)
}

func (c *content) index(o *Order, key []byte, now int64) error {
	switch o.Kind {
	case OrderPause:
		return c.pause(o.Rule, o.Until)
	case OrderConfirm:
		return c.confirm(o.Rule, o.Until)
	case OrderPardon:
		c.pardoned++
		return c.refreshPardon(pardonedKey(key), now)
	}

	if o.Scope == scopeIP {
		c.prefixes.add(o)
		return nil
	}

	c.fields.Add(1)
	return nil
}

// unindex undoes index for an order that is no longer stored.
func (c *content) unindex(old Held) {
	switch o := old.Order(); {
	case o.Kind == OrderPause:
		_ = c.pause(o.Rule, 0)
	case o.Kind == OrderConfirm:
		_ = c.confirm(o.Rule, 0)
	case o.Kind == OrderPardon:
		c.pardoned--
		_ = c.refreshPardon(pardonedKey(old.recordKey()), 0)
	case o.Scope == scopeIP:
		c.prefixes.drop(o)
	default:
		c.fields.Add(-1)
	}
}

func (c *content) pause(rule string, until int64) error {
	if rule == EveryRule {
		c.paused.Store(until)
		return nil
	}
	number, err := c.number(rule)
	if err == nil {
		c.view.Load().rules[number].pausedUntil.Store(until)
	}
	return err
}

// confirm has guarded entries of a rule be enforced until a time.
func (c *content) confirm(rule string, until int64) error {
	number, err := c.number(rule)
	if err == nil {
		c.view.Load().rules[number].confirmedUntil.Store(until)
	}
	return err
}

const pardonRule = ManualRule + "/" + pardonWord

// pardonedKey returns the record key of the entry that a pardon's record is about.
func pardonedKey(record []byte) []byte { return record[len(pardonRule)+1:] }

// pardons reports whether a pardon covers the entry under that record key: by its id, or because the entry began before
// the order.
func (c *content) pardons(record []byte, e *Entry, now int64) bool {
	if c.pardoned == 0 {
		return false
	}
	h := c.get(pardonRule, record)
	return h.inForce(now) && h.Order().pardons(e)
}

// refreshPardon updates whether an entry is pardoned.
func (c *content) refreshPardon(record []byte, now int64) error {
	rule, key, ok := splitKey(record)
	if !ok {
		return nil
	}

	old := c.get(string(rule), key)
	if !old.Found() || old.isOrder() {
		return nil
	}

	flags := old.record.flags() &^ heldPardoned
	if c.pardons(record, old.Entry(), now) {
		flags |= heldPardoned
	}
	if flags == old.record.flags() {
		return nil
	}

	// The record is written again with another flag, because records never change: readers may be looking at it.
	_, err := c.hold(old, head{until: old.Until(), flags: flags}, old.rule.name, old.record.key(), old.record.value())
	return err
}
