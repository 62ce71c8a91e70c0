package objects

import (
	"fmt"
	"testing"

	"weir/pkg/collector/ordered"
)

func newKnown(t *testing.T) *known {
	t.Helper()
	k := &known{}
	if err := k.load(t.Context(), &ordered.Memory{}, 0, 0); err != nil {
		t.Fatal(err)
	}
	return k
}

func (k *known) mustAdd(t *testing.T, e entry) {
	t.Helper()
	if err := k.add(&e); err != nil {
		t.Fatal(err)
	}
}

func (k *known) mustPrune(t *testing.T, sent int64) {
	t.Helper()
	if err := k.prune(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
}

// Of an object that is being written, what was read before is kept until that is not needed for going on after a crash.
func TestWhatWasReadBeforeIsKeptUntilLaterPositionsAreSent(t *testing.T) {
	k := newKnown(t)
	for n := range 10 {
		k.mustAdd(t, entry{key: 1, etag: openMark, end: int64(10 * n), bytes: int64(n)})
	}
	record := k.written[1]
	for _, of := range []struct {
		sent int64
		left int
	}{{-1, 10}, {25, 8}, {30, 7}, {1000, 1}} {
		if k.mustPrune(t, of.sent); len(k.records[record]) != of.left {
			t.Errorf("sent up to %d: %d are left", of.sent, len(k.records[record]))
		}
	}
	k.frontier.At = 1000
	if k.forget(1000); k.byKey[1] == nil {
		t.Error("it is forgotten while it is written")
	}

	k.mustAdd(t, entry{key: 1, etag: 7, modified: 2000, end: 2000, bytes: 10})
	if k.mustPrune(t, 1999); len(k.records[record]) != 1 {
		t.Error("what was read before is forgotten before what follows is sent")
	}
	k.added, k.dirty[k.last] = 1, true
	if k.mustPrune(t, 2000); len(k.dirty) > 0 {
		t.Error("what was read before is forgotten before the journal has what follows")
	}
	if k.records[record] != nil || k.byKey[1].bytes != 10 {
		t.Errorf("it is %+v, with %d records", k.byKey[1], len(k.records[record]))
	}
}

// An object that was read again, because it was added to, is remembered as before until Kafka has what follows.
func TestARecordIsForgottenOnceLaterPositionsAreSent(t *testing.T) {
	k := newKnown(t)
	for n := range uint64(recordMost + 1) {
		k.mustAdd(t, entry{key: n, etag: 1, modified: 1, end: int64(n)})
	}
	first := k.byKey[0].record
	k.mustAdd(t, entry{key: 0, etag: 2, modified: 2, end: 1000})
	k.frontier.At = 1
	if k.forget(999); k.records[first] == nil {
		t.Error("what was read before is forgotten before what follows is sent")
	}
	if k.forget(1000); k.records[first] != nil {
		t.Error(fmt.Sprint(k.records[first]))
	}
}

// A file that moved away is not open again after a restart, though the record of what was read before is there still, and
// comes later.
func TestAFileThatMovedAwayStaysSo(t *testing.T) {
	k := newKnown(t)
	k.put(&entry{key: 1, etag: movedAway, modified: 2, end: 10, bytes: 10}, 1)
	k.putOpen(&entry{key: 1, etag: openMark, modified: 1, end: 10, bytes: 10}, 2)
	if e := k.byKey[1]; e.etag != movedAway || k.written[1] != 2 {
		t.Errorf("it is %+v, and the record %d", e, k.written[1])
	}
	k.putOpen(&entry{key: 1, etag: openMark, modified: 3, end: 20, bytes: 20}, 2)
	if e := k.byKey[1]; !e.open() {
		t.Errorf("after more was read of it, it is %+v", e)
	}
}
