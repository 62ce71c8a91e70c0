package blocklist

import "testing"

// Edits changes when an entry or an order changes, so that data derived from a list is rebuilt then, and not at each
// watermark.
func TestEditsAreOfEntriesAndOrders(t *testing.T) {
	s := wholeSet(t, "1.1.1.1")
	mark := &Mark{List: list, Partitions: 1, At: at}
	value, err := mark.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name  string
		do    func() error
		edits bool
	}{
		{"a mark", func() error { return s.Apply(at, Change{Offset: 100, Key: mark.RecordKey(), Value: value}) }, false},
		{"a later state", func() error { s.Reach(State{s.Version(), true, at + 1}); return nil }, false},
		{"an entry", func() error { return s.Apply(at, record(t, 101, verdict("2.2.2.2"))) }, true},
		{"an entry and a mark", func() error {
			return s.Apply(at, record(t, 102, verdict("3.3.3.3")), Change{Offset: 103, Key: mark.RecordKey(), Value: value})
		}, true},
		{"an order", func() error { return s.Order(allow("10.9.0.0/16"), at) }, true},
		{"a record before its time", func() error { s.Ahead(at, record(t, 104, verdict("4.4.4.4"))); return nil }, true},
		{"another list", func() error { s.Fill().Swap(State{s.Version(), true, at}, at); return nil }, true},
	} {
		before := s.Edits()
		if err := step.do(); err != nil || (s.Edits() != before) != step.edits {
			t.Errorf("%s: from %d to %d, %v", step.name, before, s.Edits(), err)
		}
	}
}
