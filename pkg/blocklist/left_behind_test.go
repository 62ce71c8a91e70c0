package blocklist

import "testing"

// Orders that are missing in a log that was created again are left behind, once. Orders that it lifts or changes are
// not. Nothing is left behind when the list before is old, or the same, or another.
func TestLeftBehind(t *testing.T) {
	const now = int64(1_800_000_000_000)
	blocks := func(id, value string, ended int64) Change {
		o := &Order{ID: id, Kind: OrderBlock, Scope: "ip", Value: value, From: now - 1000, Until: Never, Ended: ended, By: "a", Why: "w"}
		text, err := o.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		return Change{Key: o.RecordKey(), Value: text}
	}
	of := func(name string, epoch, asOf int64) State {
		return State{Version: Version{List: ListID{Name: name, Epoch: epoch}}, Whole: true, AsOf: asOf}
	}
	for name, c := range map[string]struct {
		next State
		log  []Change
		want int
	}{
		"nothing in it": {of("a", 2, now), nil, 2},
		"one lifted":    {of("a", 2, now), []Change{blocks("x", "203.0.113.7", now)}, 1},
		"one given":     {of("a", 2, now), []Change{blocks("y", "203.0.113.8", 0)}, 1},
		"the same list": {of("a", 1, now), nil, 0},
		"another list":  {of("b", 2, now), nil, 0},
		"an old list":   {of("a", 2, now+endedLasts+1), nil, 0},
	} {
		s := NewSet(Limits{})
		filling := s.Fill()
		if err := filling.Apply(now, blocks("1", "203.0.113.7", 0), blocks("2", "203.0.113.8", 0)); err != nil {
			t.Fatal(err)
		}
		filling.Swap(of("a", 1, now), now)
		filling = s.Fill()
		if err := filling.Apply(now, c.log...); err != nil {
			t.Fatal(err)
		}
		filling.Swap(c.next, now)
		if got := len(s.Pending()); got != c.want {
			t.Errorf("%s: %d wait for the log, want %d", name, got, c.want)
		}
		if got := len(s.LeftBehind()); got != c.want {
			t.Errorf("%s: %d are left behind, want %d", name, got, c.want)
		}
		if got := len(s.LeftBehind()); got != 0 {
			t.Errorf("%s: %d are given twice", name, got)
		}
	}
}
