package hit

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

var header = Header{Source: "access.log/5f0c", From: 1 << 20, To: 1310720, Clock: 1_700_000_000_000, Fingerprint: "9f86d081"}

// told is what a test says to a Writer, and what it expects of a Reader: a hit, or with a cost of 0 a command.
type told struct {
	rule      string
	key       string
	unixMilli int64
	cost      int64
	id        string
}

func write(tb testing.TB, w *Writer, rules []string, all []told, h Header) []byte {
	tb.Helper()
	w.Reset(rules)
	for _, s := range all {
		if !tell(w, rules, s) {
			tb.Fatalf("%v does not fit", s)
		}
	}
	record, err := w.Append(nil, h)
	if err != nil {
		tb.Fatal(err)
	}
	if len(record) > w.Size() || w.Size() > MaxBytes {
		tb.Fatalf("%d bytes, %d were announced, %d are possible", len(record), w.Size(), MaxBytes)
	}
	return record
}

func tell(w *Writer, rules []string, s told) bool {
	for n, rule := range rules {
		if rule == s.rule && s.cost == 0 {
			return w.Unblock(n, []byte(s.key), s.unixMilli, s.id)
		}
		if rule == s.rule {
			return w.Add(n, []byte(s.key), s.unixMilli, s.cost)
		}
	}
	panic("no such rule")
}

func contents(r *Reader) (all []told) {
	for _, item := range r.Items() {
		pair := r.Pairs()[item.Pair]
		id, command := r.Unblock(item)
		if command != (item.Cost == 0) {
			panic("a command costs nothing, a hit something")
		}
		all = append(all, told{r.Rules()[pair.Rule], string(pair.Key), item.UnixMilli, item.Cost, string(id)})
	}
	return all
}

func same(tb testing.TB, got, want []told) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%d items, want %d", len(got), len(want))
	}
	for n := range got {
		if got[n] != want[n] {
			tb.Fatalf("item %d is %v, want %v", n, got[n], want[n])
		}
	}
}

func TestRoundTrip(t *testing.T) {
	const at = 1_700_000_000_000
	for name, all := range map[string][]told{
		"nothing":        nil,
		"one hit":        {{"a", "203.0.113.7", at, 1, ""}},
		"two rules":      {{"b", "203.0.113.7", at, 1, ""}, {"a", "203.0.113.7", at, 1, ""}, {"b", "203.0.113.7", at + 1, 1, ""}},
		"costs":          {{"a", "x", at, 2, ""}, {"a", "y", at, 300, ""}, {"a", "z", at, math.MaxInt64, ""}, {"a", "w", at, 1, ""}},
		"times":          {{"a", "x", at, 1, ""}, {"a", "x", at + 59_000, 1, ""}, {"a", "x", at - 1, 1, ""}, {"a", "x", 0, 1, ""}},
		"times far away": {{"a", "x", math.MinInt64, 1, ""}, {"a", "x", math.MaxInt64, 1, ""}, {"a", "x", -1000, 1, ""}},
		"keys":           {{"a", "", at, 1, ""}, {"a", "alice", at, 1, ""}, {"a", strings.Repeat("k", 300), at, 1, ""}, {"a", "\xff\x00", at, 1, ""}},
		"commands":       {{"a", "x", at, 1, ""}, {"a", "x", at + 5, 0, "id-1"}, {"b", "new", at + 5, 0, ""}, {"a", "x", at + 6, 1, ""}},
		"no rule's name": {{"", "x", at, 1, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			record := write(t, NewWriter(), []string{"a", "", "b"}, all, header)
			var r Reader
			if err := r.Reset(record); err != nil {
				t.Fatal(err)
			}
			same(t, contents(&r), all)
			if r.Header() != header {
				t.Errorf("header %+v, want %+v", r.Header(), header)
			}
		})
	}
}

func TestHeadersComeBack(t *testing.T) {
	var r Reader
	for _, h := range []Header{
		{Source: "", From: 0, To: 1},
		{Source: strings.Repeat("s", MaxText), From: math.MaxInt64 - 1, To: math.MaxInt64, Part: maxPart, More: true, Clock: math.MinInt64, Fingerprint: strings.Repeat("f", MaxText)},
		{Source: "topic/7", From: 0, To: math.MaxInt64, Part: 1, Clock: math.MaxInt64},
	} {
		w := NewWriter()
		w.Reset([]string{"a"})
		for n := 0; w.Add(0, fmt.Append(nil, n), int64(n), 1); n++ {
		}
		record, err := w.Append(nil, h)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Reset(record); err != nil || r.Header() != h {
			t.Errorf("%v: header %+v, want %+v", err, r.Header(), h)
		}
		if len(record) > MaxBytes {
			t.Errorf("a full batch with the longest header has %d bytes", len(record))
		}
	}
}

func TestHeadersThatAreRefused(t *testing.T) {
	w := NewWriter()
	w.Reset([]string{"a"})
	for _, h := range []Header{
		{}, {From: 1, To: 1}, {From: 2, To: 1}, {From: -1, To: 1}, {To: 1, Part: -1}, {To: 1, Part: maxPart + 1},
		{To: 1, Source: strings.Repeat("s", MaxText+1)}, {To: 1, Fingerprint: strings.Repeat("f", MaxText+1)},
	} {
		if record, err := w.Append([]byte("as it was"), h); !errors.Is(err, ErrHeader) || string(record) != "as it was" {
			t.Errorf("%+v is taken: %q, %v", h, record, err)
		}
	}
}

func TestHitsOfOneMillisecondAreOne(t *testing.T) {
	said := []told{
		{"a", "x", 10, 1, ""}, {"a", "y", 10, 1, ""}, {"a", "x", 10, 2, ""}, {"b", "x", 10, 1, ""}, {"a", "x", 12, 1, ""},
		{"a", "x", 10, 200, ""}, {"a", "x", 11, 1, ""}, {"a", "x", 12, 1, ""}, {"a", "x", 11, math.MaxInt64, ""},
		{"a", "x", 20, 0, "id"}, {"a", "x", 10, 1, ""}, {"a", "x", 12, 1, ""}, {"a", "x", 10, 1, ""}, {"a", "y", 10, 4, ""},
	}
	want := []told{
		{"a", "x", 10, 203, ""}, {"a", "y", 10, 5, ""}, {"b", "x", 10, 1, ""}, {"a", "x", 12, 2, ""},
		{"a", "x", 11, math.MaxInt64, ""},
		{"a", "x", 20, 0, "id"}, {"a", "x", 10, 2, ""}, {"a", "x", 12, 1, ""},
	}
	var r Reader
	if err := r.Reset(write(t, NewWriter(), []string{"a", "b"}, said, header)); err != nil {
		t.Fatal(err)
	}
	same(t, contents(&r), want)
}

func TestACostBelowOneIsNoHit(t *testing.T) {
	w := NewWriter()
	w.Reset([]string{"a"})
	for _, cost := range []int64{0, -1, math.MinInt64} {
		if !w.Add(0, []byte("x"), 1, cost) || w.Len() != 0 {
			t.Errorf("a cost of %d is a hit", cost)
		}
	}
}

// The bytes of version 1 as the package comment lays them out. They never change.
func TestGoldenBytes(t *testing.T) {
	all := []told{
		{"per-ip", "203.0.113.7", 1_700_000_000_250, 1, ""}, {"login", "alice /login", 1_700_000_000_250, 3, ""},
		{"per-ip", "203.0.113.7", 1_700_000_005_250, 1, ""}, {"per-ip", "198.51.100.0/22", 1_700_000_005_249, 1, ""},
		{"per-ip", "2001:db8:1::/64", 1_700_000_005_249, 1, ""}, {"per-ip", "2001:db8::1:2:3:4", 1_700_000_005_249, 1, ""},
		{"login", "alice /login", 1_700_000_005_249, 0, "id7"},
	}
	h := header
	h.Part, h.More = 2, true
	record := write(t, NewWriter(), []string{"unused", "login", "per-ip"}, all, h)
	const want = "01" + "05" + "0f6163636573732e6c6f672f35663063" + "808040" + "808010" + "80a0abfef962" + "083966383664303831" +
		"02" + "067065722d6970" + "056c6f67696e" +
		"05" + "01cb007107" + "080c616c696365202f6c6f67696e" + "0216c63364" + "034020010db800010000" + "0420010db8000000000001000200030004" +
		"f403" +
		"00" + "0403" + "220a" + "0101" + "00" + "00" + "480103696437"
	sum := fmt.Sprintf("%016x", xxhash.Sum64(record[:len(record)-8]))
	if got := hex.EncodeToString(record[:len(record)-8]); got != want {
		t.Errorf("bytes\n%s, want\n%s", got, want)
	}
	if got := fmt.Sprintf("%016x", Checksum(record)); got != sum || sum != "3f10d586d5ab5d9c" {
		t.Errorf("checksum %s, of the bytes before it %s", got, sum)
	}
}

func TestTheSameCallsGiveTheSameBytes(t *testing.T) {
	m := newMixture(3, 5000, 300)
	used := NewWriter()
	used.Reset([]string{"other"})
	used.Add(0, []byte("before"), 1, 1)
	m.fill(used)
	first, _ := used.Append(nil, header)
	again, _ := used.Append(nil, header)
	fresh := NewWriter()
	m.fill(fresh)
	other, _ := fresh.Append([]byte("before it"), header)
	if !bytes.Equal(first, again) || !bytes.Equal(first, other[len("before it"):]) {
		t.Error("the bytes differ")
	}
}

func TestABatchGoesOnAfterAppend(t *testing.T) {
	w := NewWriter()
	w.Reset([]string{"a"})
	w.Add(0, []byte("x"), 1, 1)
	if _, err := w.Append(nil, header); err != nil {
		t.Fatal(err)
	}
	w.Add(0, []byte("y"), 2, 1)
	w.Add(0, []byte("x"), 1, 1)
	record, _ := w.Append(nil, header)
	want := write(t, NewWriter(), []string{"a"}, []told{{"a", "x", 1, 2, ""}, {"a", "y", 2, 1, ""}}, header)
	if !bytes.Equal(record, want) {
		t.Error("other bytes than those made at once")
	}
}

// A Writer that is used again must not find what it held before.
func TestAWriterUsedVeryOften(t *testing.T) {
	w := NewWriter()
	rules := []string{"a"}
	for n := range 3 * lastGeneration {
		w.Reset(rules)
		w.Add(0, []byte("x"), int64(n%3), 1)
		w.Add(0, []byte("x"), int64(n%3)-1, 1)
		w.Add(0, []byte("x"), int64(n%3)-1, 1)
		if w.Len() != 2 || len(w.pairs) != 1 {
			t.Fatalf("batch %d: %d items of %d pairs", n, w.Len(), len(w.pairs))
		}
	}
}

func TestReaderKeepsNothingOfTheBatchBefore(t *testing.T) {
	var r Reader
	if err := r.Reset(smallRecord(t)); err != nil {
		t.Fatal(err)
	}
	other := []told{{"b", "y", 1, 1, ""}}
	if err := r.Reset(write(t, NewWriter(), []string{"b"}, other, Header{Source: "s", To: 1})); err != nil {
		t.Fatal(err)
	}
	same(t, contents(&r), other)
	if r.Header() != (Header{Source: "s", To: 1}) || len(r.Rules()) != 1 || len(r.Pairs()) != 1 {
		t.Errorf("%+v, rules %q, %d pairs", r.Header(), r.Rules(), len(r.Pairs()))
	}
}

func TestChecksum(t *testing.T) {
	record := smallRecord(t)
	var r Reader
	if err := r.Reset(record); err != nil {
		t.Fatal(err)
	}
	if r.Checksum() != Checksum(record) || Checksum(record) != xxhash.Sum64(record[:len(record)-8]) {
		t.Errorf("%x, %x", r.Checksum(), Checksum(record))
	}
	if Checksum(nil) != 0 {
		t.Error("no bytes have a checksum")
	}
}

// The bytes of version 2, held for ever: hits with values, next to others and to a command.
func TestBytesWithValues(t *testing.T) {
	w := NewWriter()
	rules := []string{"unused", "paths", "per-ip"}
	of := []uint64{9, 7, 0}
	w.ResetValues(rules, of)
	for _, ok := range []bool{
		w.AddValue(1, []byte("203.0.113.7"), 1_700_000_000_250, 1<<63),
		w.AddValue(1, []byte("203.0.113.7"), 1_700_000_000_250, 1<<63),
		w.Add(2, []byte("203.0.113.7"), 1_700_000_000_250, 3),
		w.Unblock(1, []byte("203.0.113.7"), 1_700_000_000_250, "id"),
		w.AddValue(1, []byte("203.0.113.7"), 1_700_000_001_250, 2),
		w.Add(1, []byte("alice"), 1_700_000_001_250, 5),
	} {
		if !ok {
			t.Fatal("it does not fit")
		}
	}
	record, err := w.Append(nil, header)
	if err != nil || len(record) > w.Size() {
		t.Fatal(err, len(record), w.Size())
	}
	const want = "02" + "00" + "0f6163636573732e6c6f672f35663063" + "808040" + "808010" + "80a0abfef962" + "083966383664303831" +
		"02" + "057061746873" + "0700000000000000" + "067065722d6970" + "0000000000000000" +
		"03" + "01cb007107" + "09cb007107" + "0005616c696365" + "f403" +
		"00" + "0000000000000080" + "10" + "0000000000000080" + "0403" + "28" + "01026964" + "2202" + "0200000000000000" + "00" + "0000000000000000" +
		"3603b362353fab6b"
	if got := hex.EncodeToString(record); got != want {
		t.Errorf("bytes\n%s, want\n%s", got, want)
	}

	var r Reader
	if err := r.Reset(record); err != nil {
		t.Fatal(err)
	}
	same(t, contents(&r), []told{
		{"paths", "203.0.113.7", 1_700_000_000_250, 1, ""}, {"paths", "203.0.113.7", 1_700_000_000_250, 1, ""},
		{"per-ip", "203.0.113.7", 1_700_000_000_250, 3, ""}, {"paths", "203.0.113.7", 1_700_000_000_250, 0, "id"},
		{"paths", "203.0.113.7", 1_700_000_001_250, 1, ""}, {"paths", "alice", 1_700_000_001_250, 1, ""},
	})
	for n, want := range []uint64{1 << 63, 1 << 63, 0, 0, 2, 0} {
		if got := r.Value(r.Items()[n]); got != want {
			t.Errorf("item %d has the value %d, want %d", n, got, want)
		}
	}
	if r.Of(0) != 7 || r.Of(1) != 0 {
		t.Errorf("the values are of %d and %d", r.Of(0), r.Of(1))
	}
	for n := range record {
		if err := r.Reset(record[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if err := new(Positions).Read(seal(append([]byte{VersionValues}, record[1:20]...), 0)); !errors.Is(err, ErrNewer) {
		t.Errorf("positions of a later version: %v", err)
	}

	// Where no hit has a value, the bytes are those of version 1.
	w.ResetValues(rules, of)
	w.Add(2, []byte("x"), 1, 1)
	plain, _ := w.Append(nil, header)
	w.Reset(rules)
	w.Add(2, []byte("x"), 1, 1)
	if first, _ := w.Append(nil, header); !bytes.Equal(plain, first) || plain[0] != Version {
		t.Errorf("bytes\n%x, want\n%x", plain, first)
	}
}

func TestNothingIsAllocatedPerValue(t *testing.T) {
	w, rules, of, key := NewWriter(), []string{"paths"}, []uint64{7}, []byte("203.0.113.7")
	var r Reader
	var record []byte
	allocations := testing.AllocsPerRun(10, func() {
		w.ResetValues(rules, of)
		for n := range 5000 {
			w.AddValue(0, key, int64(n), uint64(n))
		}
		record, _ = w.Append(record[:0], header)
		if err := r.Reset(record); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations for a batch", allocations)
	}
}

// Blocks of members come back as they were added, next to hits of other rules.
func TestBlocksOfMembers(t *testing.T) {
	w, r := NewWriter(), &Reader{}
	w.ResetValues([]string{"per-ip", "sprays"}, []uint64{0, 7})
	const most = 1<<62 - 2
	if !w.Add(0, []byte("203.0.113.7"), 1_700_000_000_000, 3) ||
		!w.AddMember(1, []byte("203.0.113.0/24"), 1_700_000_000_001, 5, most, true) ||
		!w.AddMember(1, []byte("203.0.113.0/24"), 1_700_000_000_001, 6, 0, false) ||
		!w.AddMember(1, []byte("203.0.113.0/24"), 1_600_000_000_000, 7, 12345, false) {
		t.Fatal("they do not fit")
	}
	size := w.Size()
	batch, err := w.Append(nil, Header{Source: "blocks/1/0", To: 1})
	if err != nil || len(batch) > size {
		t.Fatalf("%d bytes, want %d at most: %v", len(batch), size, err)
	}
	if err := r.Reset(batch); err != nil {
		t.Fatal(err)
	}
	items := r.Items()
	if len(items) != 4 || items[0].Cost != 3 || r.Value(items[0]) != 0 {
		t.Fatalf("%+v", items)
	}
	for i, want := range []struct {
		value, id uint64
		gone      bool
	}{{5, most, true}, {6, 0, false}, {7, 12345, false}} {
		item := items[1+i]
		if id, gone := Member(item.Cost); r.Value(item) != want.value || id != want.id || gone != want.gone {
			t.Errorf("%+v: %d %d %v, want %+v", item, r.Value(item), id, gone, want)
		}
	}
}
