package blocklist

import (
	"sync"
)

// content is one list.
type content struct {
	most int
	mu   sync.RWMutex
	held map[string]Held
}

func newContent(most int) *content { return &content{most: most, held: map[string]Held{}} }

func (c *content) apply(change Change, _ int64) error {
	record, err := DecodeRecord(change.Key, change.Value)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := string(change.Key)
	before, known := c.held[key]
	switch {
	case record.Entry != nil:
		e := record.Entry
		if known && (before.entry.Generation > e.Generation || before.entry.Generation == e.Generation && before.entry.Offset > e.Offset) {
			return nil
		}
		c.held[key] = Held{entry: e}
	case record.Order != nil:
		c.held[key] = Held{order: record.Order}
	case record.Mark == nil:
		delete(c.held, key)
	}
	return nil
}

func (c *content) check(a *Asked, now int64) Answer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var answer Answer
	if c.held[manual+"/pause/*"].inForce(now) {
		return Answer{Paused: true}
	}
	pardoned := map[string]bool{}
	consider := func(h Held) {
		if h.order.Kind == OrderAllow {
			answer.Allowed = h
		} else if h.Until() > answer.until() {
			answer.Entry = h
		}
	}
	for _, h := range c.held {
		if !h.isOrder() || !h.inForce(now) {
			continue
		}
		o := h.order
		if o.Kind == OrderPardon {
			pardoned[o.Pardons] = true
		}
		if o.Kind > OrderAllow {
			continue
		}
		if o.Scope == scopeIP && a.IP.IsValid() && o.Prefix().Contains(a.IP.Unmap()) || o.Scope == scopeUser && o.Value == a.User {
			consider(h)
		}
		for _, f := range a.Fields {
			if o.Scope == f.Name && o.Value == f.Value {
				consider(h)
			}
		}
	}
	for _, k := range a.Keys {
		h := c.held[k.Rule+"/"+string(k.Key)]
		switch {
		case !h.inForce(now) || pardoned[h.entry.ID]:
		case h.entry.Mode == Shadow:
			answer.Shadow = h
		case c.held[manual+"/pause/"+k.Rule].inForce(now):
			answer.Paused = true
		case h.Until() > answer.until():
			answer.Entry = h
		}
	}
	if answer.Allowed.Found() {
		answer.Entry = Held{}
	}
	return answer
}

func (a *Answer) until() int64 {
	if !a.Entry.Found() {
		return 0
	}
	return a.Entry.Until()
}

func (c *content) each(now int64, yield func(Held) bool) {
	c.mu.RLock()
	var all []Held
	for _, h := range c.held {
		if h.inForce(now) {
			all = append(all, h)
		}
	}
	c.mu.RUnlock()
	for _, h := range all {
		if !yield(h) {
			return
		}
	}
}

func (c *content) find(text string, now int64) []Record {
	scope, value, err := ParseTarget(text)
	prefix, _ := parsePrefix(value)
	var found []Record
	c.each(now, func(h Held) bool {
		e := h.Entry()
		hit := e.Key == text
		for name, field := range e.Fields {
			other, bad := parsePrefix(field)
			hit = hit || err == nil && (name == scope && field == value || scope == scopeIP && bad == nil && prefix.Overlaps(other))
		}
		if !hit {
			return true
		}
		record := Record{Entry: h.entry, Order: h.order}
		found = append(found, record)
		return true
	})
	return found
}
