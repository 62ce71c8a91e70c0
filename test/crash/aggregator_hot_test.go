package crash

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/pkg/hit"
	"weir/test/real"
)

// A run of many distinct keys through a small hot set: the memory of the process stays within its bound, and the
// offenders, whose hits lie far apart in the log, are found exactly. WEIR_HOT_KEYS is the number of keys; a hundredth
// of them may be hot.
func TestManyKeysThroughASmallHotSet(t *testing.T) {
	real.Long(t)
	t.Parallel()
	keys := number(t, "WEIR_HOT_KEYS", 300_000)
	for _, store := range []string{"redis", "disk"} {
		t.Run(store, func(t *testing.T) { manyKeys(t, store, keys) })
	}
}

func manyKeys(t *testing.T, store string, keys int) {
	r := newBranch(t, 4, limited)
	r.hotKeys, r.patience = keys/100, 10*time.Minute
	if store == "disk" {
		r.place = ""
	}
	want := r.sendMany(keys)
	m := r.install()
	m.start()
	r.drained()
	most := m.mostMemory()
	m.stop()
	got := r.list().now
	for key := range want {
		if got[of(key)] == nil {
			t.Errorf("%s broke its limit, and was not found", key)
		}
	}
	for found := range got {
		if !want[found.key] {
			t.Errorf("%v kept its limit, and is blocked", found)
		}
	}
	promised := int64(80<<20 + r.partitions*24<<20 + r.hotKeys*600)
	if store == "disk" {
		promised += 64 << 20
	}
	if most > promised+promised/5 {
		t.Errorf("%d MiB of memory, though %d are promised", most>>20, promised>>20)
	}
	t.Logf("%d keys, %d of them hot, %d offenders; at most %d MiB of memory", keys, r.hotKeys, len(want), most>>20)
}

// sendMany sends one hit of each key, and five more of every thousandth, a tenth of the log apart.
func (r *river) sendMany(keys int) map[string]bool {
	r.t.Helper()
	producer := r.client.Appender(topic.AppenderConfig{Topic: r.prefix + "hits", Partitions: r.partitions})
	want := map[string]bool{}
	now := time.Now().UnixMilli()
	const step = 4000
	for from := 0; from < keys; from += step {
		b := newBatches(r, int64(from), step)
		for n := from; n < min(from+step, keys); n++ {
			b.hit(fmt.Sprintf("user-%d", n), now)
			for back := 1; back <= 5 && n%1000 == 0; back++ {
				if earlier := n - back*(keys/10/1000*1000); earlier >= 0 {
					b.hit(fmt.Sprintf("user-%d", earlier), now)
					want[fmt.Sprintf("user-%d", earlier)] = back == 5 || want[fmt.Sprintf("user-%d", earlier)]
				}
			}
		}
		if err := producer.Send(r.t.Context(), b.messages(now)...); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := producer.Close(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	for key, offends := range want {
		if !offends {
			delete(want, key)
		}
	}
	return want
}

// Batches are those of one call.
type batches struct {
	river   *river
	header  hit.Header
	writers []*hit.Writer
}

func newBatches(r *river, from, length int64) *batches {
	b := &batches{river: r, header: hit.Header{Source: "many", From: from, To: from + length, Fingerprint: "many"}}
	for range r.partitions {
		w := hit.NewWriter()
		w.Reset([]string{"limited"})
		b.writers = append(b.writers, w)
	}
	return b
}

func (b *batches) hit(key string, at int64) {
	if !b.writers[hit.Partition("limited", []byte(key), b.river.partitions)].Add(0, []byte(key), at, 1) {
		b.river.t.Fatal("a batch is full")
	}
}

func (b *batches) messages(clock int64) (messages []topic.Message) {
	b.header.Clock = clock
	for p, w := range b.writers {
		value, err := w.Append(nil, b.header)
		if err != nil {
			b.river.t.Fatal(err)
		}
		messages = append(messages, topic.Message{Partition: p, Value: value})
	}
	return messages
}

// mostMemory is the maximum memory of the process.
func (i *installation) mostMemory() int64 {
	i.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", i.process.Process.Pid))
	if err != nil {
		i.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(after, &kib); err != nil {
		i.t.Fatal(err)
	}
	return kib << 10
}
