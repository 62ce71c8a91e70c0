package outright

import (
	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// NextEnd returns when the first allow, pause or confirmation ends, of orders and of the rules, so that more or less is
// refused although the list does not change; blocklist.Never when none does.
func NextEnd(list List, rules *rule.Set, nowMilli int64) int64 {
	next := int64(blocklist.Never)
	for order := range list.Orders(nowMilli) {
		if order.Kind != blocklist.OrderBlock {
			next = min(next, order.Until)
		}
	}

	if rules == nil {
		return next
	}
	for _, allow := range rules.Allows {
		if until := allow.Until.UnixMilli(); !allow.Until.IsZero() && until > nowMilli {
			next = min(next, until)
		}
	}

	return next
}
