package inlinetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"weir/pkg/inline"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
)

// cellsAreListed: cells of a prefix are listed once each, however many there are, and those that have expired are not.
func cellsAreListed(t *testing.T, p *BackendPlace) {
	w := writer{t, p.Open(t)}
	scanner, ok := w.b.(stored.Scanner)
	if !ok {
		t.Skip("it lists no cells")
	}
	want := map[string]stored.Cell{}
	for n := range 1203 {
		name := fmt.Sprint("kquota\x00", n)
		c := stored.Commit{Group: uint16(n * 7919), At: w.now(), Slack: 1 << 40, Changes: []stored.Change{set(name, 0, uint64(n+1), fmt.Sprint("state ", n))}}
		if r, err := w.b.Commit(ctx, &c); err != nil || !r.Done {
			t.Fatal(r, err)
		}
		want[name] = stored.Cell{Version: uint64(n + 1), State: []byte(fmt.Sprint("state ", n))}
	}
	w.commit(set("kquota\x00", 0, 1, "of an empty key"))
	want["kquota\x00"] = stored.Cell{Version: 1, State: []byte("of an empty key")}
	w.commit(set("kquota\x00a*[?\\", 0, largest, "\xff\x00"))
	want["kquota\x00a*[?\\"] = stored.Cell{Version: largest, State: []byte("\xff\x00")}
	others := []string{"kquot", "kquota", "kquota\x01", "kquotas\x00a", "kQuota\x00a", "kother\x00a", "aquota\x00a", "s"}
	for _, name := range others {
		w.commit(set(name, 0, 1, "x"))
	}
	expired := set("kquota\x00expired", 0, 1, "x")
	expired.Expires = w.now()/1000 + 1
	w.commit(expired)
	for w.now()/1000 <= expired.Expires+20 { // another server's time may be a little behind
	}

	got := map[string]stored.Cell{}
	err := scanner.Scan(ctx, "kquota\x00", func(name string, cell stored.Cell, now int64) bool {
		if _, twice := got[name]; twice || now < expired.Expires*1000 {
			t.Errorf("%q comes twice, or at %d", name, now)
		}
		got[name] = stored.Cell{Version: cell.Version, State: slices.Clone(cell.State)}
		return true
	})
	same := func(a, b stored.Cell) bool { return a.Version == b.Version && string(a.State) == string(b.State) }
	if err != nil || !maps.EqualFunc(got, want, same) {
		t.Errorf("%d cells of %d, %v", len(got), len(want), err)
	}

	n := 0
	if err := scanner.Scan(ctx, "k", func(string, stored.Cell, int64) bool { n++; return n < 700 }); err != nil || n != 700 {
		t.Errorf("%d of 700 cells, %v", n, err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := scanner.Scan(over, "k", func(string, stored.Cell, int64) bool { return true }); err == nil {
		t.Error("it goes on when the context is over")
	}
}

// keysAreListed: a Store lists the keys of rules, with what they have counted.
func keysAreListed(t *testing.T, p *BackendPlace) {
	s := p.store(t, Options{})
	quota, other, gone := perHour(t, "quota", 10), NewRule(t, "other", window.Token, window.Limit{Hits: 50, Per: time.Hour}), perHour(t, "gone", 10)
	for n := range 5 {
		askFor(t, s, of(quota, fmt.Sprint("key ", n), int64(n+1)), of(other, "a", 2), of(gone, "a", 1))
	}
	list := func(want map[string]int64, rules ...*inline.Rule) {
		t.Helper()
		got := map[string]int64{}
		complete, err := s.All(ctx, rules, func(rule *inline.Rule, key string, state *window.State, at int64) {
			got[rule.Name+" "+key] = rule.Policy.Count(state, 0, at)
		})
		if err != nil || !complete || !maps.Equal(got, want) {
			t.Errorf("%v, %v, %v", got, complete, err)
		}
	}
	of := map[string]int64{"quota key 0": 1, "quota key 1": 2, "quota key 2": 3, "quota key 3": 4, "quota key 4": 5}
	list(of, quota)
	of["other a"] = 10
	list(of, quota, other)
	list(map[string]int64{}, perHour(t, "none", 10))

	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.All(over, []*inline.Rule{quota}, func(*inline.Rule, string, *window.State, int64) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("when the context is over: %v", err)
	}
}
