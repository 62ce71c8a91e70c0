package pipeline

import (
	"bytes"
	"testing"
	"time"

	"weir/pkg/hit"
)

// Batches carry the values of rules that count different ones, next to hits of other rules; a cut that is made again, as
// after a crash, has the same bytes.
func TestBatchesCarryValues(t *testing.T) {
	const rules = "rules: [{name: per-ip, key: ip, limits: [10/min]}, {name: paths, key: ip, distinct: path, limits: [200/hour]}]\n"
	at := time.Now()
	batches := func() (all [][]byte) {
		r := newRig(t, rules)
		s := r.stream(t, StreamConfig{Journal: &memoryJournal{}})
		for n := range 100 {
			s.mustAdd(t, logLine(n, at))
		}
		for _, w := range s.writers {
			if w == nil {
				continue
			}
			b, err := w.Append(nil, hit.Header{Source: "s", To: 1})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b)
		}
		return all
	}

	first, again := batches(), batches()
	if len(first) != 3 || len(again) != 3 {
		t.Fatalf("%d batches", len(first))
	}
	hits, values := 0, map[uint64]bool{}
	for n := range first {
		if !bytes.Equal(first[n], again[n]) {
			t.Errorf("batch %d, made again, has other bytes", n)
		}
		var r hit.Reader
		if err := r.Reset(first[n]); err != nil {
			t.Fatal(err)
		}
		for _, item := range r.Items() {
			switch r.Rules()[r.Pairs()[item.Pair].Rule] {
			case "per-ip":
				hits += int(item.Cost)
			case "paths":
				values[r.Value(item)] = true
			}
		}
	}
	if hits != 100 || len(values) != 100 || values[0] {
		t.Errorf("%d hits, %d values", hits, len(values))
	}
}
