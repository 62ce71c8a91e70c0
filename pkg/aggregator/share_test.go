package aggregator

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// errorsOf writes a cut of hits of one key: so many match what the share is of, and so many do not.
func (l *lab) errorsOf(key string, matching, others int) {
	l.t.Helper()
	l.sendValues("s", "errors", l.shares, func(w *hit.Writer) {
		for n := range matching + others {
			value := uint64(0)
			if n < matching {
				value = 1
			}
			w.AddValue(0, []byte(key), l.newest().UnixMilli()+int64(n), value)
		}
	})
}

// moveOn has other keys move the time on, beyond what decides all that was pending.
func (l *lab) moveOn() {
	l.t.Helper()
	for range 40 {
		l.send("s", "few", func(w *hit.Writer) { w.Add(0, []byte("198.51.100.1"), l.newest().UnixMilli(), 1) })
	}
}

const errorsLimit = "50% of at least 4 requests within 10 seconds"

func isErrors(e *blocklist.Entry) bool {
	return e.Limit == errorsLimit && e.Count == 4 && e.Ended == 0
}

// A key that sends nothing more is blocked when others have moved the time on, and not before; and one whose good requests
// come late is not.
func TestSharesAreDecidedByTheTimeOfOthers(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	p := l.takes()
	l.errorsOf("192.0.2.1", 4, 0)
	l.errorsOf("192.0.2.2", 4, 0)
	l.errorsOf("192.0.2.3", 2, 2)
	l.settle(p)
	if len(l.said()) > 0 {
		t.Fatalf("%+v", l.said())
	}
	l.errorsOf("192.0.2.2", 0, 0)
	l.sendValues("late", "errors", l.shares, func(w *hit.Writer) {
		for n := range int64(4) {
			w.AddValue(0, []byte("192.0.2.2"), l.newest().UnixMilli()-1000-n, 0)
		}
	})
	l.moveOn()
	l.settle(p)
	l.want("errors/192.0.2.1", isErrors)
	for _, key := range []string{"192.0.2.2", "192.0.2.3"} {
		if e := l.said()["errors/"+key]; e != nil {
			t.Errorf("%s is blocked: %+v", key, e)
		}
	}
	entries := len(l.list.arrived)
	l.moveOn()
	l.settle(p)
	if e := l.list.arrived[entries:]; len(e) > 0 && string(e[0].Key) == "errors/192.0.2.1" {
		t.Error("the block came twice")
	}

	l.now = l.newest().Add(time.Second)
	s, err := p.keyStatus("errors", "192.0.2.3", nil)
	if err != nil || s.Limits[0].Limit != errorsLimit {
		t.Errorf("%+v, %v", s, err)
	}
	l.send("enforcer", "errors", func(w *hit.Writer) { w.Unblock(0, []byte("192.0.2.1"), l.newest().UnixMilli()+10, "order") })
	l.settle(p)
	l.want("errors/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended > 0 })
}

// A rule that is gone begins no block, also where a key of it had broken the limit before.
func TestSharesOfRulesThatAreGone(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	p := l.takes()
	l.errorsOf("192.0.2.1", 4, 0)
	l.settle(p)
	if err := l.agg.Reload(parseRules(t, strings.Replace(labRules, "- {name: errors", "# ", 1))); err != nil {
		t.Fatal(err)
	}
	l.moveOn()
	l.settle(p)
	if e := l.said()["errors/192.0.2.1"]; e != nil {
		t.Errorf("%+v", e)
	}
}

// The next owner decides what the last one had stored and not decided, though the key's hits are not read again.
func TestSharesAreDecidedByTheNextOwner(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	p := l.takes()
	l.errorsOf("192.0.2.1", 4, 0)
	l.settle(p)
	l.kill()
	p = l.takes()
	l.settle(p)
	if len(l.said()) > 0 {
		t.Fatalf("%+v", l.said())
	}
	l.moveOn()
	l.settle(p)
	l.want("errors/192.0.2.1", isErrors)
	if err := p.windows.FindNoted(context.Background()); err != nil || p.windows.Finds() {
		t.Errorf("a note is left: %v", err)
	}
}

// The next owner publishes again what the last one had decided and stored, when Kafka does not have it.
func TestSharesThatWereLostArePublishedAgain(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	p := l.takes()
	l.errorsOf("192.0.2.1", 4, 0)
	l.settle(p)
	l.moveOn()
	for range 200 { // nothing arrives
		l.turn(p)
	}
	if w, _ := p.windows.FindNamed("errors/192.0.2.1"); w != nil && w.Verdict == nil || len(l.list.waiting) == 0 || p.windows.Dirty() > 0 {
		t.Fatalf("it is not decided, or not stored: %+v", w)
	}
	l.list.lose(0)
	l.kill()
	p = l.takes()
	l.settle(p)
	l.want("errors/192.0.2.1", isErrors)
}
