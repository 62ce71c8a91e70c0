package blocklist

// Held is an entry or an order in a Set; the zero Held is none. It stays what it is when the list changes.
type Held struct {
	entry *Entry
	order *Order
}

// Found says whether it is one.
func (h Held) Found() bool { return h.entry != nil || h.order != nil }

// Rule is the entry's; manual for orders.
func (h Held) Rule() string {
	if h.order != nil {
		return manual
	}
	return h.entry.Rule
}

// Key is the entry's, or the order's value.
func (h Held) Key() string { return h.Entry().Key }

// Until is when it ends by itself.
func (h Held) Until() int64 {
	if h.order != nil {
		return h.order.Until
	}
	return h.entry.Until
}

// Entry is all of it.
func (h Held) Entry() *Entry {
	if h.order != nil {
		return h.order.Entry()
	}
	return h.entry
}

// Order is the order, nil for a verdict.
func (h Held) Order() *Order { return h.order }

func (h Held) isOrder() bool { return h.order != nil }
func (h Held) kind() Kind    { return h.order.Kind }

func (h Held) inForce(now int64) bool {
	if h.order != nil {
		return h.order.Ended == 0 && h.order.Until > now
	}
	return h.entry != nil && h.entry.Ended == 0 && h.entry.Until > now
}
