package crash

import (
	"fmt"
	"time"

	"weir/internal/topic"
	"weir/pkg/hit"
)

// A feed is a source that a test sends by hand: each call is a batch.
type feed struct {
	*river
	source   string
	position int64
	sent     []topic.Message
}

func (r *river) feed(source string) *feed { return &feed{river: r, source: source} }

// hits sends hits of one key at each of some times.
func (f *feed) hits(of pair, times ...time.Time) {
	f.t.Helper()
	f.cut(of, func(w *hit.Writer) {
		for _, at := range times {
			w.Add(0, []byte(of.key), at.UnixMilli(), 1)
		}
	})
}

// unblock sends the command.
func (f *feed) unblock(of pair, at time.Time) {
	f.t.Helper()
	f.cut(of, func(w *hit.Writer) { w.Unblock(0, []byte(of.key), at.UnixMilli(), "by-hand") })
}

// crowd sends one hit of each of so many keys, which no other call names, in a batch each.
func (f *feed) crowd(rule, name string, keys int, at time.Time) {
	f.t.Helper()
	writers := make([]*hit.Writer, f.partitions)
	for p := range writers {
		writers[p] = hit.NewWriter()
		writers[p].Reset([]string{rule})
	}
	for n := range keys {
		key := fmt.Appendf(nil, "%s-%d", name, n)
		writers[hit.Partition(rule, key, f.partitions)].Add(0, key, at.UnixMilli(), 1)
	}
	for p, w := range writers {
		f.send(p, w)
	}
}

func (f *feed) cut(of pair, fill func(*hit.Writer)) {
	f.t.Helper()
	w := hit.NewWriter()
	w.Reset([]string{of.rule})
	fill(w)
	f.send(hit.Partition(of.rule, []byte(of.key), f.partitions), w)
}

func (f *feed) send(partition int, w *hit.Writer) {
	f.t.Helper()
	header := hit.Header{Source: f.source, From: f.position, To: f.position + 100, Clock: time.Now().UnixMilli(), Fingerprint: "feed"}
	f.position = header.To
	value, err := w.Append(nil, header)
	if err != nil {
		f.t.Fatal(err)
	}
	f.sent = append(f.sent, topic.Message{Partition: partition, Value: value})
	f.produce(f.sent[len(f.sent)-1])
}

// every returns so many times, a step apart, the last one now.
func every(step time.Duration, times int) (all []time.Time) {
	for n := range times {
		all = append(all, time.Now().Add(-step*time.Duration(times-1-n)))
	}
	return all
}

// awaitListed waits until a key is blocked for readers of the list, or is not.
func (r *river) awaitListed(of pair, blocked bool) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%v: blocked is %v", of, blocked), func() error {
		e := r.list().now[of]
		if listed := e != nil && e.Ended == 0 && e.Until > time.Now().UnixMilli(); listed != blocked {
			return fmt.Errorf("the list says %+v", e)
		}
		return nil
	})
}
