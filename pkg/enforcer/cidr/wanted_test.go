package cidr

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

// changing is a list that signals its changes.
type changing struct {
	listed
	part    bool
	changed chan struct{}
	edits   uint64
}

func (c *changing) Whole() bool              { return !c.part }
func (c *changing) Changed() <-chan struct{} { return c.changed }

func (c *changing) Edits() uint64 { return c.edits }

func (c *changing) change() {
	c.edits++
	c.mark()
}

// mark signals a change that is no edit of the list.
func (c *changing) mark() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func TestWantedIsComputedAgainAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := &blocklist.Entry{Rule: "manual", Source: blocklist.Manual, Fields: map[string]string{"ip": "203.0.113.7"}, Until: blocklist.Never}
		list := &changing{part: true, changed: make(chan struct{})}
		list.entries = []*blocklist.Entry{entry}
		var rules *rule.Set
		w := NewWanted(list, func() *rule.Set { return rules })
		if w.Renew(time.Now()) || w.Whole() || len(w.Blocks()) != 0 {
			t.Error("made of a part of a list")
		}
		list.part = false
		steps := []struct {
			name string
			do   func()
			want bool
		}{
			{"the list is whole", func() {}, true},
			{"nothing changed", func() { time.Sleep(time.Minute) }, false},
			{"the list changed", list.change, true},
			{"a mark", list.mark, false},
			{"a change after a mark", list.change, true},
			{"a pause is ordered", func() {
				list.orders = []*blocklist.Order{{Kind: blocklist.OrderPause, Rule: "other", Until: time.Now().Add(time.Hour).UnixMilli()}}
				list.change()
			}, true},
			{"it goes on", func() { time.Sleep(time.Hour - time.Second) }, false},
			{"it ends", func() { list.orders = nil; time.Sleep(time.Second) }, true},
			{"nothing more", func() {}, false},
		}
		for _, step := range steps {
			step.do()
			if got := w.Renew(time.Now()); got != step.want || len(w.Blocks()) != 1 {
				t.Errorf("%s: made anew: %v, %d blocks", step.name, got, len(w.Blocks()))
			}
		}
		rules = &rule.Set{}
		if !w.Renew(time.Now()) {
			t.Error("other rules change nothing")
		}
	})
}

// After a list that took long, Renew rests, and no change is lost meanwhile.
func TestWantedRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := &changing{changed: make(chan struct{})}
		w := NewWanted(list, nil)
		began := time.Now()
		time.Sleep(time.Second) // the time that the list took
		if !w.Renew(began) || w.Rests() != 3*time.Second {
			t.Errorf("it rests %v", w.Rests())
		}
		list.change()
		if w.Renew(time.Now()) {
			t.Error("it does not rest")
		}
		time.Sleep(w.Rests())
		if !w.Renew(time.Now()) {
			t.Error("a change is lost")
		}
	})
}

func TestAliveLeavesTheGivenBlocksAsTheyAre(t *testing.T) {
	blocks := []Block{{Until: 10}, {Until: 30}, {Until: 20}}
	if got := Alive(blocks, 20); len(got) != 1 || got[0].Until != 30 {
		t.Errorf("%v", got)
	}
	if blocks[0].Until != 10 || blocks[1].Until != 30 || blocks[2].Until != 20 {
		t.Errorf("%v", blocks)
	}
}
