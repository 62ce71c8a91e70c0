package blocklist

// The flags of a packed record.
const (
	heldShadow   = 1 << iota // an entry of a shadow rule
	heldEnded                // kept only so that older records of its key change nothing
	heldPardoned             // an entry that a pardon lifts by its id
	heldOrder                // an order; its kind is in the bits of heldKinds
	heldKinds    = 0x70
	heldKindBit  = 4
	heldShared   = 0x10 // of an entry, which has no kind: it is guarded because it is beyond the guard's most_share
	heldGuarded  = 0x80 // an entry that its rule's guard keeps from being enforced, unless the rule is confirmed
)

// Held is an entry or an order of a Set, as it was found; the zero Held is none.
type Held struct {
	rule   *ruleState
	record packed

	confirmed bool // a guarded entry, and a person has confirmed its rule
}

// Found reports whether there is one.
func (h Held) Found() bool { return h.record != nil }

// Rule is the entry's rule; manual for orders.
func (h Held) Rule() string {
	if h.isOrder() {
		return ManualRule
	}
	return h.rule.name
}

// Key returns the entry's key, or the order's value.
func (h Held) Key() string { return string(h.record.key()) }

// Until returns when it ends by itself, in Unix milliseconds, or Never.
func (h Held) Until() int64 { return h.record.until() }

// Shadow reports whether it is an entry that is only shown. A guarded entry is, unless its rule is confirmed.
func (h Held) Shadow() bool { return h.record.flags()&heldShadow != 0 && !h.confirmed }

// Guarded reports whether the rule's guard keeps the entry from being enforced; also while the rule is confirmed.
func (h Held) Guarded() bool { return !h.isOrder() && h.record.flags()&heldGuarded != 0 }

// at returns it as it counts at a time: guarded entries are enforced while their rule is confirmed.
func (h Held) at(now int64) Held {
	if h.record.flags()&heldGuarded != 0 && !h.isOrder() {
		h.confirmed = h.rule.confirmedUntil.Load() > now
	}
	return h
}

// Entry returns a newly decoded copy; an order in the form of an entry.
func (h Held) Entry() *Entry {
	if h.isOrder() {
		return h.Order().Entry()
	}
	e, _ := Decode(h.recordKey(), h.record.value()) // a stored record is always complete
	if h.confirmed {
		e.Mode = Enforce
	}
	return e
}

// Order returns a newly decoded copy of the order, or nil for a verdict.
func (h Held) Order() *Order {
	if !h.isOrder() {
		return nil
	}
	o, _ := decodeOrder(h.recordKey(), h.record.value())
	return o
}

func (h Held) recordKey() []byte {
	key := make([]byte, 0, len(h.rule.name)+1+len(h.record.key()))
	key = append(append(key, h.rule.name...), '/')
	return append(key, h.record.key()...)
}

func (h Held) isOrder() bool { return h.record.flags()&heldOrder != 0 }
func (h Held) kind() Kind    { return Kind(h.record.flags() & heldKinds >> heldKindBit) }

// inForce reports whether it is active: found, and not ended or pardoned.
func (h Held) inForce(now int64) bool {
	return h.record != nil && h.record.flags()&(heldEnded|heldPardoned) == 0 && h.record.until() > now
}

// Kind is the kind of an order; 0 for a verdict.
func (h Held) Kind() Kind {
	if !h.isOrder() {
		return 0
	}
	return h.kind()
}

// KeyBytes returns the key as it lies in memory. The caller must not change it.
func (h Held) KeyBytes() []byte { return h.record.key() }

// ID returns the id as it lies in memory. The caller must not change it.
func (h Held) ID() []byte {
	value := h.record.value()
	start := 2
	if h.isOrder() {
		start = 3
	}
	c := newDecoder(value[start:], true)
	return c.Take(c.Number())
}

// Decided returns when it was put on the list, in Unix milliseconds. It decodes nothing else.
func (h Held) Decided() int64 {
	value := h.record.value()
	if h.isOrder() {
		c := newDecoder(value[3:], true)
		c.Take(c.Number()) // the id
		return c.Signed()
	}

	c := newDecoder(value[2:], true)
	c.Take(c.Number())
	c.Number() // the generation
	c.Number() // the offset
	from := c.Signed()
	if value[1]&isNever == 0 {
		c.Number()
	}
	return from + c.Signed()
}
