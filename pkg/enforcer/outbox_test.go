package enforcer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/topic"
	"weir/pkg/blocklist"
)

func aParcel(t *testing.T) *parcel {
	t.Helper()
	o := &blocklist.Order{ID: newID(), Kind: blocklist.OrderBlock, Scope: "ip", Value: "203.0.113.7", From: 1, Until: blocklist.Never, By: "b", Why: "w"}
	value, err := o.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &parcel{Orders: []message{{Key: o.RecordKey(), Value: value}}, Events: []message{{Partition: 3, Value: []byte("{}")}}}
}

func TestLeftoversInTheFolderOfOrders(t *testing.T) {
	folder := t.TempDir()
	o, _, err := openOutbox(folder, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := o.put(aParcel(t)); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(o.path(1))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		if _, err := unmarshalParcel(whole[:cut]); err == nil {
			t.Fatalf("a file of %d of %d bytes is read", cut, len(whole))
		}
	}
	for name, text := range map[string]string{o.path(1): strings.Replace(string(whole), `"partition":3`, `"partition":2`, 1), o.path(7) + ".part": "{", filepath.Join(folder, "notes.txt"): "ours"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again, waiting, err := openOutbox(folder, quiet)
	if err != nil || len(waiting) != 2 || again.held.Load() != 2 {
		t.Fatalf("%d wait, %v", len(waiting), err)
	}
	if waiting[0].number != 0 || waiting[1].number != 2 || again.next != 3 {
		t.Errorf("%d, %d, next %d", waiting[0].number, waiting[1].number, again.next)
	}
	var left []string
	files, _ := os.ReadDir(folder)
	for _, file := range files {
		left = append(left, strings.TrimLeft(file.Name(), "0"))
	}
	if got := strings.Join(left, " "); got != ".order 1.order.damaged 2.order notes.txt" {
		t.Error(got)
	}
}

func TestTheOutboxIsBounded(t *testing.T) {
	o, _, err := openOutbox(t.TempDir(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	o.held.Store(maxParcels)
	if err := o.put(aParcel(t)); err == nil {
		t.Error("it has room for one more")
	}
}

// After failed removals the folder has more files than may wait. All are sent, and no order overwrites one of them.
func TestMoreFilesThanMayWait(t *testing.T) {
	folder := t.TempDir()
	o, _, err := openOutbox(folder, quiet)
	if err != nil {
		t.Fatal(err)
	}
	data, err := aParcel(t).marshal()
	if err != nil {
		t.Fatal(err)
	}
	const files = maxParcels + 2
	for n := range int64(files) {
		if err := os.WriteFile(o.path(n), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	again, waiting, err := openOutbox(folder, quiet)
	if err != nil || len(waiting) != files || len(again.queue) != files || again.held.Load() != files || again.next != files {
		t.Fatalf("of %d files %d wait, %d are queued, %d held, the next is %d, %v", files, len(waiting), len(again.queue), again.held.Load(), again.next, err)
	}
	if err := again.put(aParcel(t)); err == nil {
		t.Error("it has room for one more")
	}
	sinks := Sinks{&gathering{}, &gathering{}, &gathering{}}
	for range 3 {
		again.send(t.Context(), sinks, <-again.queue)
	}
	if err := again.put(aParcel(t)); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != files-3+1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

// refusing refuses all messages with an error.
type refusing struct{ err error }

func (r refusing) Send(_ context.Context, messages ...topic.Message) error {
	for _, m := range messages {
		m.Done(0, r.err)
	}
	return nil
}

// A message that Kafka refuses permanently is not sent for ever; one that it did not get before the end is sent again.
func TestRecordsThatKafkaRefuses(t *testing.T) {
	for err, want := range map[error]int64{fmt.Errorf("%w: %w", topic.ErrInvalid, topic.ErrPermanent): 0, topic.ErrClosed: 1} {
		o, _, openErr := openOutbox(t.TempDir(), quiet)
		if openErr != nil {
			t.Fatal(openErr)
		}
		p := aParcel(t)
		if err := o.put(p); err != nil {
			t.Fatal(err)
		}
		o.send(t.Context(), Sinks{refusing{err}, &gathering{}, &gathering{}}, <-o.queue)
		if _, statErr := os.Stat(o.path(p.number)); o.held.Load() != want || (statErr == nil) != (want == 1) {
			t.Errorf("%v: %d are held, %v", err, o.held.Load(), statErr)
		}
	}
}
