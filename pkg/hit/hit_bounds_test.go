package hit

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestNoBatchIsLongerThanMaxBytes(t *testing.T) {
	for name, hit := range map[string]func(n int) told{
		"short keys": func(n int) told { return told{"a", fmt.Sprint(n % 7), int64(n), 1, ""} },
		"long keys":  func(n int) told { return told{"a", fmt.Sprintf("%0300d", n), int64(n), 1, ""} },
		"commands":   func(n int) told { return told{"a", "x", int64(n * n), 0, fmt.Sprint(n)} },
		"one hit":    func(int) told { return told{"a", "x", 5, math.MaxInt64 / 2, ""} },
		"far times":  func(n int) told { return told{"a", "203.0.113.7", int64(n) * 0x7edcba9876543211, int64(n) << 40, ""} },
		"addresses":  func(n int) told { return told{"a", fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255), 0, 1, ""} },
	} {
		w := NewWriter()
		rules := []string{"a"}
		w.Reset(rules)
		for n := range 300_000 {
			h := hit(n)
			size, length := w.Size(), w.Len()
			fits := w.Fits(Need("a", []byte(h.key)) + len(h.id))
			if tell(w, rules, h) != fits {
				t.Fatalf("%s: the %d-th fits: %v; that is not what is said", name, n, fits)
			}
			if !fits && (w.Size() != size || w.Len() != length) {
				t.Fatalf("%s: the %d-th does not fit and changes the batch", name, n)
			}
			if w.Size()-size > Need("a", []byte(h.key))+len(h.id) {
				t.Fatalf("%s: the %d-th needs %d bytes", name, n, w.Size()-size)
			}
		}
		record, err := w.Append(nil, header)
		var r Reader
		if err != nil || len(record) > MaxBytes || r.Reset(record) != nil {
			t.Errorf("%s: %d bytes, %v", name, len(record), err)
		}
		if name != "one hit" && len(record) < MaxBytes-2048 {
			t.Errorf("%s: full with %d bytes", name, len(record))
		}
	}
}

func TestLongerBatchesAreRefused(t *testing.T) {
	const start = "\x00\x01s\x00\x01\x00\x00" + "\x01\x01a\x01\x00\x01x\x00\x00"
	for size, want := range map[int]error{MaxBytes: nil, MaxBytes + 1: ErrDamaged} {
		var r Reader
		body := start + strings.Repeat("\x10", size-1-checksumBytes-len(start))
		if err := r.Reset(sealed(body)); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestAKeyOfMaxKeyFits(t *testing.T) {
	w := NewWriter()
	for _, size := range [][3]int{{MaxKey, 0, 0}, {0, MaxKey, 0}, {0, 0, MaxKey}} {
		rules := []string{strings.Repeat("r", size[1])}
		write(t, w, rules, []told{{rules[0], strings.Repeat("k", size[0]), 1, 0, strings.Repeat("i", size[2])}}, header)
	}
}

func TestNothingIsAllocatedPerHit(t *testing.T) {
	m := newMixture(5, 20_000, 3000)
	w := NewWriter()
	var r Reader
	var record []byte
	allocations := testing.AllocsPerRun(10, func() {
		m.fill(w)
		record, _ = w.Append(record[:0], header)
		if err := r.Reset(record); err != nil {
			t.Fatal(err)
		}
		for range r.Items() {
		}
		Partition("per-ip", record[:200], 16)
	})
	if allocations > 0 {
		t.Errorf("%v allocations for a batch of %d", allocations, len(m.hits))
	}
}

// held returns how many bytes are in use more than before f, while what it returns is kept.
func held(f func() any) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

func TestMemoryOfAWriter(t *testing.T) {
	for name, hit := range map[string]func(n int) (string, int64){
		"most items": func(n int) (string, int64) { return fmt.Sprint(n % 7), -int64(n / 7) },
		"most pairs": func(n int) (string, int64) { return string([]byte{byte(n), byte(n >> 8), byte(n >> 16)}), 0 },
	} {
		used := held(func() any {
			w := NewWriter()
			w.Reset([]string{"a"})
			for n := 0; ; n++ {
				key, at := hit(n)
				if !w.Add(0, []byte(key), at, 1) {
					break
				}
			}
			return w
		})
		t.Logf("%s: %d bytes", name, used)
		if used > 16<<20 {
			t.Errorf("%s: a Writer holds %d bytes", name, used)
		}
	}
}

func TestMemoryOfAReader(t *testing.T) {
	const start = "\x00\x01s\x00\x01\x00\x00"
	for name, body := range map[string]string{
		"empty rules":    start + "\xff\xff\x0f" + strings.Repeat("\x00", MaxBytes-100),
		"empty prefixes": start + "\x01\x00\xff\xff\x07" + strings.Repeat("\x03\x00", MaxBytes/2-100),
		"pairs, items":   start + "\x01\x00\xa9\xaa\x05" + strings.Repeat("\x03\x00", 87_337) + strings.Repeat("\x00", 87_337),
		"items":          start + "\x01\x00\x01\x00\x00\x00\x00" + strings.Repeat("\x10", MaxBytes-100),
		"empty ids":      start + "\x01\x00\x01\x00\x00\x00\x08\x01\x00" + strings.Repeat("\x18\x01\x00", MaxBytes/3-100),
	} {
		record := sealed(body)
		var err error
		used := held(func() any {
			var r Reader
			err = r.read(record)
			return &r
		})
		t.Logf("%s: %d bytes for %d, %v", name, used, len(record), err)
		if used > 64*len(record) {
			t.Errorf("%s: a Reader holds %d bytes for %d", name, used, len(record))
		}
	}
}

// A hit may be ahead of its collector's clock by little, and of its record by no more than hits may be late.
func TestTheLatestTimeOfAHit(t *testing.T) {
	const clock = 1_700_000_000_000
	for name, c := range map[string]struct {
		record      int64 // after the clock
		ahead, late time.Duration
		want        int64
	}{
		"a record behind its clock":           {200, 10 * time.Second, time.Minute, 10_000},
		"a clock ahead of the log by little":  {-50_000, 10 * time.Second, time.Minute, 10_000},
		"a clock ahead of the log by an hour": {-3_600_000, 10 * time.Second, time.Minute, -3_540_000},
		"no hit may be late":                  {-1000, 10 * time.Second, 0, 9000},
	} {
		h := Header{Clock: clock}
		if got := h.Latest(time.UnixMilli(clock+c.record), c.ahead, c.late); got != clock+c.want {
			t.Errorf("%s: %d after the clock, want %d", name, got-clock, c.want)
		}
	}
}
