package backtest

import "errors"

// A Condition is what --fail-if says: "refused > 0.1%", "blocked > 10 or unread > 1%".
type Condition struct{ text string }

// ParseCondition reads a condition.
func ParseCondition(text string) (Condition, error) { return Condition{}, errors.New("not yet") }
