package aggregator

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/store"
	"weir/pkg/aggregator/publishing"
	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
)

// strays are what somebody may write to a topic or a store by mistake. The first byte of each is no version of ours.
var strays = []string{`{"hello":1}`, "\x02", "hello", "GET / HTTP/1.1", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}

// A record that is no batch is left out and counted, and the partition goes on.
func TestAStrayRecordIsLeftOut(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	for _, stray := range strays {
		l.append([]byte(stray))
	}
	l.hits("192.0.2.1", 5)
	l.settle(p)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 5 })
	if got := testutil.ToFloat64(p.metrics.batches.damaged); got != float64(len(strays)) {
		t.Errorf("%v batches are counted as damaged, want %d", got, len(strays))
	}
}

// A batch that a later version has written stops the partition, which is not taken for caught up then.
func TestALaterVersionStopsThePartition(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.settle(p)
	later := []byte("\x03 what nobody knows yet")
	l.append(binary.LittleEndian.AppendUint64(later, xxhash.Sum64(later)))
	if err := p.turn(t.Context()); !ends(err) || !strings.Contains(err.Error(), "newer version") {
		t.Fatalf("the turn ends with %v", err)
	}
	p.stop(errors.New("newer"))
	s := p.shown.Load()
	if s.caughtUp() || s.seen.UnknownSince(l.now) == nil {
		t.Errorf("a partition that is stopped is shown as %+v", s)
	}
}

// Bytes of something else in the place of a window, or of the list's note, stop nothing.
func TestStrayValuesOfTheStore(t *testing.T) {
	for _, stray := range strays {
		if _, err := windows.ReadRecord([]byte(stray)); !errors.Is(err, windows.ErrDamaged) {
			t.Errorf("%q as a window: %v", stray, err)
		}
		if _, err := windows.ReadCheckpoint([]byte(stray)); !errors.Is(err, windows.ErrDamaged) {
			t.Errorf("%q as a checkpoint: %v", stray, err)
		}
		l := newLab(t, 1, newMemoryStore())
		l.put(store.Notes, publishing.NoteKey, []byte(stray))
		p := l.takes()
		l.settle(p)
		if err := p.own.Write(t.Context(), []store.Change{{Space: store.Windows, Key: []byte("few/192.0.2.1"), Value: []byte(stray)}}); err != nil {
			t.Fatal(err)
		}
		l.hits("192.0.2.1", 5)
		l.settle(p)
		l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 5 })
	}
}

// Where the checkpoint is damaged the log is read again from its beginning, and nothing is counted twice.
func TestADamagedCheckpointIsDoneWithout(t *testing.T) {
	l := newLab(t, 1, newMemoryStore())
	p := l.takes()
	l.hits("192.0.2.1", 3)
	l.hits("192.0.2.2", 5)
	l.settle(p)
	for _, stray := range strays {
		l.put(store.Notes, windows.CheckpointKey, []byte(stray))
		l.start(labRules)
		l.settle(l.takes())
	}
	if e := l.said()["few/192.0.2.1"]; e != nil {
		t.Errorf("hits are counted twice: %+v", e)
	}
	l.compare(p)
	l.hits("192.0.2.1", 2)
	l.settle(l.takes())
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 5 })
}

// A store that evicts may drop the checkpoint, or the fence too, and keep windows. The hits in these are not counted again.
func TestALostCheckpointIsDoneWithout(t *testing.T) {
	kept := newMemoryStore()
	l := newLab(t, 1, kept)
	p := l.takes()
	l.hits("192.0.2.1", 3)
	l.hits("192.0.2.2", 5)
	l.settle(p)
	clear(kept.parts[0].spaces[store.Notes])
	l.settle(l.takes())
	clear(kept.parts[0].spaces[store.Notes])
	kept.parts[0].fence = store.Fence{}
	l.start(labRules)
	p = l.takes()
	l.settle(p)
	if e := l.said()["few/192.0.2.1"]; e != nil {
		t.Errorf("hits are counted twice: %+v", e)
	}
	l.compare(p)
	l.hits("192.0.2.1", 2)
	l.settle(p)
	l.want("few/192.0.2.1", func(e *blocklist.Entry) bool { return e.Count == 5 })
}
