package stored

import (
	"context"
	"errors"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// A Scanner is a Backend that can list its cells, for people.
type Scanner interface {
	Backend
	// Scan calls look with the cells whose names begin with a prefix, and the database's time in microseconds, until look
	// returns false. Cells that change meanwhile may be missing, but none comes twice. The calls of look do not overlap.
	Scan(ctx context.Context, prefix string, look func(name string, cell Cell, now int64) (more bool)) error
}

// MostScanned bounds the keys that All looks at.
const MostScanned = 100_000

var errNoScan = errors.New("this store cannot list its keys")

// All calls look with the window of each key of some rules, and the time that it is of. It stops at MostScanned keys of any
// rules, and when the context is over: then the keys are not complete.
func (s *Store) All(ctx context.Context, rules []*inline.Rule, look func(rule *inline.Rule, key string, state *window.State, at int64)) (complete bool, err error) {
	scanner, ok := s.config.Backend.(Scanner)
	if !ok {
		return false, errNoScan
	}
	prefix, named := "k", make(map[string]*inline.Rule, len(rules))
	for _, one := range rules {
		named[one.Name] = one
	}
	if len(rules) == 1 {
		prefix = nameOf(rules[0].Name, nil)
	}

	scanned := 0
	complete = true
	err = scanner.Scan(ctx, prefix, func(name string, cell Cell, now int64) bool {
		if scanned == MostScanned {
			complete = false
			return false
		}
		scanned++
		ruleName, key := splitName(name)
		rule := named[ruleName]
		if rule == nil {
			return true
		}
		var state window.State
		if rule.Policy.Read(cell.State, &state) == nil {
			look(rule, key, &state, max(now/1000, state.Newest()))
		}
		return true
	})
	if err != nil && scanned > 0 && ctx.Err() != nil {
		complete, err = false, nil // what there was time for
	}
	return complete, err
}

// After is the first name that begins with no prefix that is not after this one; empty if there is none.
func After(prefix string) string {
	for end := len(prefix); end > 0; end-- {
		if last := prefix[end-1]; last < 0xff {
			return prefix[:end-1] + string([]byte{last + 1})
		}
	}
	return ""
}
