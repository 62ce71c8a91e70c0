package past

import (
	"maps"
	"testing"

	"weir/pkg/blocklist"
)

func TestBlocksAreCounted(t *testing.T) {
	x, f := opens(t, t.TempDir())
	const day = 1_700_000_000_000
	entry := func(rule, key string, from int64) blocklist.Entry {
		return blocklist.Entry{ID: blocklist.ID(rule, key, from, 1), Rule: rule, Key: key, From: from, Until: from + 60_000, Decided: from, By: "weir"}
	}
	order := func(id string, kind blocklist.Kind) blocklist.Entry {
		o := blocklist.Order{ID: id, Kind: kind, Scope: "ip", Value: "192.0.2.1", From: day, Until: blocklist.Never, By: "bob", Why: "w"}
		return *o.Entry()
	}
	adds(t, f,
		event(t, blocklist.EventBlocked, day-1, entry("per-ip", "a", day-1)),
		event(t, blocklist.EventBlocked, day, entry("per-ip", "b", day)),
		event(t, blocklist.EventBlocked, day, entry("per-ip", "b", day)), // the topic has it twice
		event(t, blocklist.EventExtended, day+1, entry("per-ip", "b", day)),
		event(t, blocklist.EventBlocked, day+2, entry("per-ip", "c", day)),
		event(t, blocklist.EventBlocked, day+2, entry("login", "c", day)),
		event(t, blocklist.EventOrdered, day+3, order("1", blocklist.OrderBlock)),
		event(t, blocklist.EventOrdered, day+4, order("2", blocklist.OrderAllow)),
	)
	got, err := x.CountBlocks(t.Context(), day)
	if want := map[string]int64{"per-ip": 2, "login": 1, "manual": 1}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, not %v", got, err, want)
	}
}

// After an aggregator was killed, a correction comes as a second beginning. A block until the window is clear may have its
// end from before.
func TestACorrectionThatComesAsABeginning(t *testing.T) {
	x, f := opens(t, t.TempDir())
	const day = 1_700_000_000_000
	e := blocklist.Entry{ID: "1", Rule: "export", Key: "a", From: day + 2000, Until: day + 90_000, Decided: day + 3000, By: "weir"}
	first := event(t, blocklist.EventBlocked, day+3000, e)
	e.From = day
	corrected := event(t, blocklist.EventBlocked, day+4000, e)
	adds(t, f, first, corrected, corrected)
	page, err := x.Search(t.Context(), Query{At: day + 5000, Limit: 10})
	if err != nil || len(page.Events) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	if last, err := ReadEvent(page.Events[0]); err != nil || last.From != day {
		t.Errorf("%s, %v", page.Events[0], err)
	}
}
