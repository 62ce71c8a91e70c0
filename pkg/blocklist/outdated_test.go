package blocklist

import "testing"

// given makes the record of an order for one target; ended is 0, or when it was lifted.
func given(t *testing.T, kind Kind, id string, from, ended int64) Change {
	t.Helper()
	o := &Order{ID: id, Kind: kind, Scope: "ip", Value: "203.0.113.7", From: from, Until: Never, Ended: ended, By: "a", Why: "w"}
	value, err := o.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return Change{Key: o.RecordKey(), Value: value}
}

func activeOrders(s *Set, now int64) (ids string) {
	for o := range s.Orders(now) {
		ids += o.ID
	}
	return ids
}

func leftBehind(s *Set) (ids string) {
	for _, o := range s.LeftBehind() {
		ids += o.ID
	}
	return ids
}

// The newest order of a target is valid, in whatever order the log has them: an enforcer that could not reach the topics
// sends its orders late. Where the log has an older one last, the newest is written again.
func TestTheNewestOrderIsValid(t *testing.T) {
	const now = int64(1_800_000_000_000)
	state := State{Version: Version{List: ListID{Name: "a", Epoch: 1}}, Whole: true, AsOf: now}
	block, allow := given(t, OrderBlock, "b", now-3000, 0), given(t, OrderAllow, "a", now-2000, 0)
	lifted := given(t, OrderBlock, "l", now-3000, now-1000)
	ahead := given(t, OrderBlock, "f", now+clockSkew+1, 0)
	for name, c := range map[string]struct {
		log           []Change
		active, again string
	}{
		"in order":                   {[]Change{block, allow}, "a", ""},
		"an older one late":          {[]Change{allow, block}, "a", "a"},
		"written again":              {[]Change{allow, block, allow}, "a", ""},
		"lifted, then an older one":  {[]Change{lifted, block}, "", "l"},
		"lifted, then given again":   {[]Change{lifted, given(t, OrderBlock, "n", now, 0)}, "n", ""},
		"of one instant":             {[]Change{allow, given(t, OrderBlock, "s", now-2000, 0)}, "s", ""},
		"a wrong clock is no reason": {[]Change{ahead, allow}, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			read := NewSet(Limits{})
			filling := read.Fill()
			if err := filling.Apply(now, c.log...); err != nil {
				t.Fatal(err)
			}
			filling.Swap(state, now)
			if got := activeOrders(read, now); got != c.active {
				t.Errorf("read: %q is active, want %q", got, c.active)
			}
			if got := leftBehind(read); got != c.again {
				t.Errorf("read: %q is written again, want %q", got, c.again)
			}

			live := NewSet(Limits{})
			live.Fill().Swap(state, now)
			for _, change := range c.log {
				if err := live.Apply(now, change); err != nil {
					t.Fatal(err)
				}
			}
			if got := activeOrders(live, now); got != c.active {
				t.Errorf("live: %q is active, want %q", got, c.active)
			}
			if got := leftBehind(live); c.again != "" && got != c.again {
				t.Errorf("live: %q is written again, want %q", got, c.again)
			}
		})
	}
}

// An order that waits for the log gives way to a newer one that the log brings, and stays so when the log brings it.
func TestAWaitingOrderGivesWayToANewerOne(t *testing.T) {
	const now = int64(1_800_000_000_000)
	s := NewSet(Limits{})
	s.Fill().Swap(State{Version: Version{List: ListID{Name: "a", Epoch: 1}}, Whole: true, AsOf: now}, now)
	waits := given(t, OrderAllow, "w", now-2000, 0)
	record, err := DecodeRecord(waits.Key, waits.Value)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Order(record.Order, now); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change Change
		active string
	}{
		{given(t, OrderBlock, "o", now-3000, 0), "w"},
		{given(t, OrderBlock, "n", now-1000, 0), "n"},
		{waits, "n"},
	} {
		if err := s.Apply(now, step.change); err != nil {
			t.Fatal(err)
		}
		if got := activeOrders(s, now); got != step.active {
			t.Errorf("%q is active, want %q", got, step.active)
		}
	}
	if got := leftBehind(s); got != "n" || len(s.Pending()) != 0 {
		t.Errorf("%q is written again, %d wait", got, len(s.Pending()))
	}
}

// An order replaces the one that its giver saw, though the clock that gave that one was ahead.
func TestAnOrderFollowsTheOneItReplaces(t *testing.T) {
	const now = int64(1_800_000_000_000)
	s := NewSet(Limits{})
	s.Fill().Swap(State{Version: Version{List: ListID{Name: "a", Epoch: 1}}, Whole: true, AsOf: now}, now)
	if err := s.Apply(now, given(t, OrderAllow, "a", now+5000, 0)); err != nil {
		t.Fatal(err)
	}
	o := &Order{ID: "b", Kind: OrderBlock, Scope: "ip", Value: "203.0.113.7", From: now, Until: now + 1000, By: "a", Why: "w"}
	s.Follow(o, now)
	if err := s.Order(o, now); err != nil {
		t.Fatal(err)
	}
	if got := activeOrders(s, now); got != "b" {
		t.Errorf("%q is active", got)
	}
}

// Two enforcers read one log, and the clock of one of them is wrong: what a person orders last applies at both, wherever
// it was ordered.
func TestTheLastOrderAppliesWhereverAClockIsWrong(t *testing.T) {
	const now, minute, day = int64(1_800_000_000_000), int64(60_000), int64(24 * 60 * 60_000)
	for name, wrong := range map[string]int64{
		"2 minutes ahead": 2 * minute, "2 minutes behind": -2 * minute, "an hour ahead": 60 * minute, "an hour behind": -60 * minute,
	} {
		t.Run(name, func(t *testing.T) {
			sets, clocks := [2]*Set{NewSet(Limits{}), NewSet(Limits{})}, [2]int64{now, now + wrong}
			for i, s := range sets {
				s.Fill().Swap(State{Version: Version{List: ListID{Name: "a", Epoch: 1}}, Whole: true, AsOf: now}, clocks[i])
			}
			for n, step := range []struct {
				at     int
				kind   Kind
				lifted bool
			}{{1, OrderBlock, false}, {0, OrderBlock, true}, {0, OrderBlock, false}, {1, OrderAllow, false}, {0, OrderAllow, true}, {1, OrderBlock, false}, {0, OrderAllow, false}} {
				for i := range clocks {
					clocks[i] += 1000
				}
				at := clocks[step.at]
				o := &Order{ID: string(rune('a' + n)), Kind: step.kind, Scope: "ip", Value: "203.0.113.7", From: at, Until: at + day, By: "a", Why: "w"}
				want := o.ID
				if step.lifted {
					o.Ended, want = at, ""
				}
				sets[step.at].Follow(o, at)
				if err := sets[step.at].Order(o, at); err != nil {
					t.Fatal(err)
				}
				value, err := o.Append(nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, s := range sets {
					if err := s.Apply(clocks[i], Change{Key: o.RecordKey(), Value: value}); err != nil {
						t.Fatal(err)
					}
					if got := activeOrders(s, clocks[i]); got != want {
						t.Errorf("step %d: %q is active at %d, want %q", n, got, i, want)
					}
				}
			}
		})
	}
}
