package blocklist

import (
	"net/netip"

	"weir/internal/address"
	"weir/internal/keytext"
)

// CheckAlone is Check for callers that do not know the rules. It asks the orders, and every rule whose keys are one
// address or one field of the request. It asks only rules for which wanted returns true; a nil wanted means all.
func (s *Set) CheckAlone(a *Asked, nowMilli int64, wanted func(rule string) bool) Answer {
	c := s.list.Load()
	answer := c.check(a, nowMilli)
	if answer.Allowed.Found() || c.paused.Load() > nowMilli {
		return answer
	}

	for _, rule := range c.view.Load().rules {
		form := rule.form.Load()
		if form == nil || rule.isOrders() || wanted != nil && !wanted(rule.name) {
			continue
		}
		c.byForm(&answer, rule.name, form, a, nowMilli)
	}

	return answer
}

func (c *content) byForm(answer *Answer, rule string, f *form, a *Asked, now int64) {
	switch f.field {
	case scopeIP:
		c.byPrefixes(answer, rule, f, address.Plain(a.IP), now)
	case scopeUser:
		c.byText(answer, rule, a.User, now)
	default:
		for i := range a.Fields {
			if a.Fields[i].Name == f.field {
				c.byText(answer, rule, a.Fields[i].Value, now)
			}
		}
	}
}

// byPrefixes looks up the address under every prefix length that keys of the rule had.
func (c *content) byPrefixes(answer *Answer, rule string, f *form, ip netip.Addr, now int64) {
	if !ip.IsValid() {
		return
	}
	for bits, seen := range f.lengths(ip) {
		if !seen {
			continue
		}
		var room [64]byte
		prefix, _ := ip.Prefix(bits)
		c.byKey(answer, rule, address.Append(room[:0], prefix), now)
	}
}

// byText looks up the key of a text.
func (c *content) byText(answer *Answer, rule, text string, now int64) {
	if text == "" {
		return
	}
	key := bytesOf(text)
	if !keytext.IsPlain(text) {
		key = keytext.Cut(keytext.Append(nil, text, false), 0)
	}
	c.byKey(answer, rule, key, now)
}
