package operate

import (
	"context"
	"net/url"

	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

// A held knows the allows and pauses that keep entries from refusing anyone.
type held struct {
	paused map[string]bool // by the name of the rule
	allows []*shown.Match
}

// maxHeld is how many allows are known. With more, an entry may lack its remark.
const maxHeld = 1000

// askHeld asks for all allows and pauses.
func askHeld(ctx context.Context, enforcer *ask.Enforcer) (*held, error) {
	list, err := enforcer.List(ctx, url.Values{"rule": {blocklist.ManualRule}})
	if err != nil {
		return nil, err
	}
	defer list.Close()

	h := &held{paused: map[string]bool{}}
	for entry, err := range list.All() {
		if err != nil {
			return nil, err
		}
		h.add(entry)
	}
	return h, nil
}

func (h *held) add(e *blocklist.Entry) {
	switch {
	case e.Ended != 0:
	case e.Order == blocklist.OrderPause:
		h.paused[e.Key] = true
	case e.Order == blocklist.OrderAllow && len(h.allows) < maxHeld:
		for scope, value := range e.Fields {
			h.allows = append(h.allows, shown.NewMatch(scope+":"+value))
		}
	}
}

// of returns why an entry refuses no one: paused or allowed; empty when it does.
func (h *held) of(e *shown.Entry) string {
	if h == nil || !e.Blocks() {
		return ""
	}
	if h.paused[blocklist.EveryRule] || h.paused[e.Rule] {
		return "paused"
	}
	for _, allow := range h.allows {
		if allow.Within(e) {
			return "allowed"
		}
	}
	return ""
}
