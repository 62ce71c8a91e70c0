package stored

import (
	"context"
	"strings"
	"time"

	"weir/pkg/inline"
)

// Settle sets what an attempt has cost, at all of its rules.
func (s *Store) Settle(ctx context.Context, id inline.ID, cost int64) error {
	return s.settle(ctx, id, "", cost)
}

// SettleAt is Settle at one rule.
func (s *Store) SettleAt(ctx context.Context, rule string, id inline.ID, cost int64) error {
	return s.settle(ctx, id, "k"+rule+"\x00", cost)
}

func (s *Store) settle(ctx context.Context, id inline.ID, prefix string, cost int64) error {
	cells, _, err := s.config.Backend.Read(ctx, groupOfID(id), []string{recordOf(id, "")})
	if err != nil {
		return err
	}
	if cells[0].Version == 0 {
		return inline.ErrUnknown
	}
	found, err := readRecord(cells[0].State)
	if err != nil {
		return err
	}

	deadline, limited := ctx.Deadline()
	if !limited {
		deadline = time.Now().Add(callPatience)
	}
	var ops []*op
	for i, name := range found.names {
		rule := s.ruleOf(name)
		if rule == nil || !strings.HasPrefix(name, prefix) {
			continue
		}
		o := &op{kind: settle, rule: rule, deadline: deadline, cost: cost, record: recordOf(id, name), done: make(chan error, 1)}
		if i == 0 {
			o.record, o.recorded, o.names = recordOf(id, ""), cells[0], found.names
		}
		s.submit(s.key(name), o)
		ops = append(ops, o)
	}

	settled := false
	for _, o := range ops {
		if err := await(ctx, o); err != nil {
			return err
		}
		settled = settled || o.known
	}
	switch {
	case settled:
		return nil
	case prefix == "":
		return inline.ErrUnknown
	}
	return inline.ErrNotCounted
}

// ruleOf is the rule of a key by its cell's name, or nil.
func (s *Store) ruleOf(name string) *inline.Rule {
	rule, _ := splitName(name)
	if rule == "" || s.config.Rule == nil {
		return nil
	}
	return s.config.Rule(rule)
}

// splitName is what nameOf has joined; of another name both are empty.
func splitName(name string) (rule, key string) {
	rule, key, isKey := strings.Cut(name, "\x00")
	if !isKey || rule == "" {
		return "", ""
	}
	return rule[1:], key
}
