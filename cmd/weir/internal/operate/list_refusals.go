package operate

import (
	"context"

	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/shown"
)

// maxRefusing is for how many entries an enforcer knows its refusals.
const maxRefusing = 1 << 14

// askRefusals asks for the refusals because of entries, by their ids.
func askRefusals(ctx context.Context, enforcer *ask.Enforcer, rule string) (map[string]shown.Refusals, error) {
	var numbers struct {
		Entries []struct {
			ID string
			shown.Refusals
		}
	}
	if err := enforcer.Refusing(ctx, rule, maxRefusing, &numbers); err != nil {
		return nil, err
	}
	refusals := make(map[string]shown.Refusals, len(numbers.Entries))
	for _, one := range numbers.Entries {
		refusals[one.ID] = one.Refusals
	}
	return refusals, nil
}
