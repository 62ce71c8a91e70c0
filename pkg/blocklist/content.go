package blocklist

import (
	"bytes"
	"errors"
	"sync/atomic"
)

// ErrFull reports a record that was left out because the list has as many as it may.
var ErrFull = errors.New("the list is full")

// content is one list: its records, and the indexes that find them by other things than rule and key.
type content struct {
	*table
	limits   Limits
	held     int // records
	leftOut  int64
	ends     expiry
	prefixes prefixes
	pardoned int          // orders to pardon
	fields   atomic.Int64 // orders to block and to allow of other scopes than ip
	paused   atomic.Int64 // until when everything is paused
	scratch  scratch
}

func newContent(limits Limits) *content { return &content{table: newTable(), limits: limits} }

// full reports whether there is no room for a record. Existing ones may change up to twice the bytes, or none could end.
// Orders have room of their own, or no one could pause or allow anything while the list is full.
func (c *content) full(isNew, isOrder bool) bool {
	switch {
	case !isNew:
		return c.bytes() >= 2*c.limits.Bytes
	case isOrder:
		return c.held >= c.limits.Entries+maxLocal || c.bytes() >= 2*c.limits.Bytes
	}
	return c.held >= c.limits.Entries || c.bytes() >= c.limits.Bytes
}

// splitKey splits a record's key into the rule (for orders: manual and the scope) and the rest.
func splitKey(key []byte) (rule, rest []byte, ok bool) {
	at := bytes.IndexByte(key, '/')
	if at == len(ManualRule) && string(key[:at]) == ManualRule {
		more := bytes.IndexByte(key[at+1:], '/')
		if more < 0 {
			return nil, nil, false
		}
		at += 1 + more
	}
	if at < 0 {
		return nil, nil, false
	}
	return key[:at], key[at+1:], true
}

// apply applies a record. A record that cannot be read changes nothing.
func (c *content) apply(change Change, now int64) error {
	if isMark(change.Key) {
		return nil
	}
	rule, key, ok := splitKey(change.Key)
	if change.Value == nil {
		if ok {
			c.forget(string(rule), key)
		}
		return nil
	}
	if bytes.HasPrefix(change.Key, []byte(ManualRule+"/")) {
		return c.applyOrder(change, now)
	}

	return c.applyEntry(change, now)
}

func (c *content) applyEntry(change Change, now int64) error {
	e, err := c.scratch.decode(change.Key, change.Value)
	if err != nil {
		return err
	}

	key := bytesOf(e.Key)
	old := c.get(e.Rule, key)
	// A former owner of the partition may publish late: the decision of the later hit stays.
	if old.Found() && old.record.until() > now {
		generation, offset := decidedAt(old.record.value())
		if generation > e.Generation || generation == e.Generation && offset > e.Offset {
			return nil
		}
	}

	// An entry that ended early is kept until its end, so that older records of its key, which may still come, change
	// nothing.
	until := keepUntil(e.Until, e.Ended)
	if until <= now {
		c.forget(e.Rule, key)
		return nil
	}

	flags := byte(0)
	if e.Mode == Shadow {
		flags |= heldShadow
	}
	if e.Guarded {
		flags |= heldGuarded
	}
	if e.ByShare {
		flags |= heldShared
	}
	if e.Ended != 0 {
		flags |= heldEnded
	}

	// The pardon may have come before this record: an entry is published again, or follows from hits that waited to be
	// counted.
	if c.pardons(change.Key, e, now) {
		flags |= heldPardoned
	}

	state, err := c.hold(old, head{until: until, flags: flags}, e.Rule, key, change.Value)
	if err == nil {
		state.noteForm(e)
	}
	return err
}

// endedLasts is how long an ended entry that had no end by itself is remembered.
const endedLasts = 24 * 3600_000

// keepUntil returns until when a record must be kept.
func keepUntil(until, ended int64) int64 {
	if ended != 0 && until == Never {
		return ended + endedLasts
	}
	return until
}

func (c *content) get(rule string, key []byte) Held {
	state, record := c.find(rule, key)
	return Held{rule: state, record: record}
}

// hold puts a record in the place of an old one, or in a place of its own.
func (c *content) hold(old Held, h head, rule string, key, value []byte) (*ruleState, error) {
	if c.full(!old.Found(), h.flags&heldOrder != 0) {
		c.leftOut++
		return nil, ErrFull
	}

	number, err := c.number(rule)
	if err != nil {
		c.leftOut++
		return nil, err
	}

	h.rule, h.hash = uint16(number), hashOf(rule, key)
	// Each change of the end adds an item to the heap. Without this check a published entry that is repeated would make
	// it grow.
	if !old.Found() || (old.Until()+999)/1000 != (h.until+999)/1000 {
		c.ends.add(h.until, h.hash)
	}

	state := c.view.Load().rules[number]
	if old.Found() {
		state.count(old.record.flags(), -1)
	} else {
		c.held++
	}

	c.put(h, state.name, key, value)
	state.count(h.flags, 1)
	return state, nil
}

func (r *ruleState) count(flags byte, by int) {
	if flags&(heldEnded|heldPardoned) != 0 {
		return
	}
	r.counts[flags&heldShadow] += by
	if flags&(heldOrder|heldGuarded) == heldGuarded {
		r.guarded += by
		if flags&heldShared != 0 {
			r.byShare += by
		}
	}
}

// forget removes a record and its index entries.
func (c *content) forget(rule string, key []byte) {
	old := c.get(rule, key)
	if !old.Found() {
		return
	}
	c.remove(rule, key)
	c.held--
	old.rule.count(old.record.flags(), -1)
	if old.isOrder() && old.record.flags()&heldEnded == 0 {
		c.unindex(old)
	}
}

// expire forgets ended records, at most the given number.
func (c *content) expire(now int64, most int) {
	for range most {
		hash, ok := c.ends.next(now)
		if !ok {
			return
		}
		c.expireHash(hash, now)
	}
}

func (c *content) expireHash(hash uint32, now int64) {
	v := c.view.Load()
	mask := uint32(len(v.slots) - 1)

	// They are collected first, because forget moves records and changes the slots.
	var over []packed
	for i := spread(hash) & mask; ; i = (i + 1) & mask {
		word := v.slots[i].Load()
		if word == 0 {
			break
		}
		if uint32(word>>32) != hash || ref(word) == 0 {
			continue
		}
		if p := v.at(ref(word)); p.until() <= now {
			over = append(over, p)
		}
	}

	for _, p := range over {
		c.forget(v.rules[p.rule()].name, p.key())
	}
}
