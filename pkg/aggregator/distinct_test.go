package aggregator

import (
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/hit"
)

// differentValues writes a cut of hits of one key with so many different values, of the fields that the rule counts or of others.
func (l *lab) differentValues(key string, of uint64, count int) {
	l.t.Helper()
	l.sendValues("s", "paths", of, func(w *hit.Writer) {
		for n := range count {
			for range 3 { // each value comes several times
				w.AddValue(0, []byte(key), l.newest().UnixMilli()+int64(n), uint64(n))
			}
		}
	})
}

// A key with more different values than the limit is blocked, by a limit in words; values of other fields, and hits without
// values, do not count; and an unblock, which has no values, does.
func TestDifferentValuesAreCounted(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	p := l.takes()
	l.differentValues("192.0.2.1", l.values, 5)
	l.differentValues("192.0.2.2", l.values, 4)
	l.differentValues("192.0.2.3", l.values+1, 9)
	l.send("s", "paths", func(w *hit.Writer) { w.Add(0, []byte("192.0.2.4"), l.newest().UnixMilli(), 9) })
	l.settle(p)
	const limit = "4 different paths within 10 seconds"
	l.want("paths/192.0.2.1", func(e *blocklist.Entry) bool { return e.Limit == limit && e.Count == 5 && e.Ended == 0 })
	for _, key := range []string{"192.0.2.2", "192.0.2.3", "192.0.2.4"} {
		if e := l.said()["paths/"+key]; e != nil {
			t.Errorf("%s is blocked: %+v", key, e)
		}
	}
	l.now = l.newest().Add(time.Second)
	s, err := p.keyStatus("paths", "192.0.2.2", nil)
	if err != nil || s.Limits[0].Limit != limit || s.Limits[0].Count != 4 {
		t.Errorf("%+v, %v", s, err)
	}

	l.send("enforcer", "paths", func(w *hit.Writer) { w.Unblock(0, []byte("192.0.2.1"), l.newest().UnixMilli()+10, "order") })
	l.settle(p)
	l.want("paths/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended > 0 })
}

// Of a rule that counts other fields from now on, keys begin at zero, also in hits that are on their way; blocks are kept.
func TestOtherFieldsBeginAtZero(t *testing.T) {
	l := newLab(t, 1, onDisk(t))
	p := l.takes()
	l.differentValues("192.0.2.1", l.values, 5)
	l.differentValues("192.0.2.2", l.values, 4)
	l.settle(p)

	other := strings.Replace(labRules, "distinct: path", "distinct: host", 1)
	l.reload(other)
	l.rules = other
	paths, _ := parseRules(t, other).Rule("paths")
	l.differentValues("192.0.2.2", l.values, 5) // made by the old rules
	l.settle(p)
	if e := l.said()["paths/192.0.2.2"]; e != nil {
		t.Errorf("blocked by values of another field: %+v", e)
	}
	l.want("paths/192.0.2.1", func(e *blocklist.Entry) bool { return e.Ended == 0 })

	l.differentValues("192.0.2.2", paths.ValuesOf(), 4)
	l.settle(p)
	if e := l.said()["paths/192.0.2.2"]; e != nil {
		t.Errorf("counting has not begun at zero: %+v", e)
	}
	l.differentValues("192.0.2.2", paths.ValuesOf(), 5)
	l.settle(p)
	l.want("paths/192.0.2.2", func(e *blocklist.Entry) bool { return e.Limit == "4 different hosts within 10 seconds" })
}
