package attempts

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() Record {
	return Record{Kind: Attempt, Time: 1_772_524_800_123, Attempt: "019e3c2f7d3a5b1c9a4e0d6f8b2c7e15", Admitted: true, Takes: []Take{
		{Rule: "quota", Key: "alice /a\\x20b", Cost: 3, Verdict: Admitted, Limit: "10/min", Remaining: 7, Again: 1_772_524_860_000},
		{Rule: "tokens", Key: "alice", Cost: 0, Verdict: Known, Limit: "5/s", Remaining: 0},
	}, Store: "local", IP: "2001:db8::1", User: "a\"\\\n\x7fü\u2028", Method: "POST", Host: "shop.example", Path: "/login?token=***", Agent: "curl", From: "ab", Order: 7, Sequence: 9}
}

func line(r *Record) []byte { return AppendSequence(r.Append(nil), r.Sequence) }

// A record is read as it was written, by us and by any reader of JSON.
func TestRecords(t *testing.T) {
	for name, want := range map[string]Record{
		"attempt":    sample(),
		"settlement": {Kind: Settlement, Time: 1, Attempt: "ab", Rule: "tokens", Cost: 300, From: "ab", Order: 1, Sequence: 1},
		"ended":      {Kind: Settlement, Time: 1, Attempt: "ab", Rule: "tokens", Ended: true, From: "ab", Order: 1, Sequence: 1},
		"to nothing": {Kind: Settlement, Time: 1, Attempt: "ab", From: "ab", Order: 1, Sequence: 1},
	} {
		var got Record
		if err := Parse(line(&want), &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got.Takes = append([]Take(nil), got.Takes...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if m, ok := MarkOf(string(line(&want)) + "\n"); !ok || m != want.Mark() {
			t.Errorf("%s: %+v", name, m)
		}
		if !Is(string(line(&want))) || !json.Valid(line(&want)) {
			t.Errorf("%s: %s", name, line(&want))
		}
	}
}

func TestForeignLinesAreNoRecords(t *testing.T) {
	ours := sample()
	for _, text := range []string{
		"", "{}", "[1]", `{"weir":"refused","time":"2026-03-03T08:00:00.000Z"}`, ` {"weir":"attempt","time":"2026-03-03T08:00:00.000Z","rules":[{}]}`,
		`{"weir":"attempt","time":"2026-03-03T08:00:00.000Z"}`, `{"weir":"settlement","time":"2026-03-03T08:00:00.000Z","cost":1}`,
		`{"weir":"attempt","time":"2026-03-03T08:00:00.000Z","rules":[{}],"weir":"another"}`,
		`{"weir":"attempt","time":"yesterday","rules":[{}]}`, string(line(&ours)[:100]), string(line(&ours)) + "}",
		`{"path":"{\"weir\":\"attempt\",\"time\":\"2026-03-03T08:00:00.000Z\",\"rules\":[{}]}"}`,
	} {
		var r Record
		if err := Parse([]byte(text), &r); err == nil {
			t.Errorf("%q is a record: %+v", text, r)
		}
		if _, ok := MarkOf(text); ok && !Is(text) {
			t.Errorf("%q has a mark", text)
		}
	}
}

func TestARepeatIsRecognised(t *testing.T) {
	var seen Repeats
	count := func(from string, sequence uint64) int {
		m := Mark{from, sequence}
		if seen.Has(m) {
			return 0
		}
		seen.See(m)
		return 1
	}
	counted := 0
	for _, sequence := range []uint64{1, 2, 3, 2, 3, 4, 6, 5, 6, 7} { // 2 and 3 were written twice, then 5 came too late: 6 was there
		counted += count("a", sequence)
	}
	if counted += count("b", 1); counted != 7 {
		t.Errorf("%d", counted)
	}

	read, ok := ReadRepeats(seen.Append(nil))
	if diff := cmp.Diff(seen, read, cmp.AllowUnexported(Repeats{}, writer{})); !ok || diff != "" {
		t.Error(ok, diff)
	}
	for _, b := range []string{"x", "12345678", "12345678\xff"} {
		if _, ok := ReadRepeats([]byte(b)); ok {
			t.Errorf("%q was read", b)
		}
	}

	for n := range 2 * maxWriters {
		count(fmt.Sprint(n), 1)
	}
	if len(seen.writers) != maxWriters {
		t.Errorf("%d writers", len(seen.writers))
	}
}

func FuzzParse(f *testing.F) {
	r := sample()
	f.Add(line(&r))
	f.Fuzz(func(t *testing.T, text []byte) {
		var one, again Record
		if Parse(text, &one) != nil {
			return
		}
		// A record that can be read can be written, and is then the same.
		if err := Parse(line(&one), &again); err != nil {
			t.Fatal(err)
		}
		if string(line(&one)) != string(line(&again)) {
			t.Errorf("%s\n%s", line(&one), line(&again))
		}
	})
}

func TestAppendAllocatesNothing(t *testing.T) {
	r := sample()
	b := line(&r)
	if n := testing.AllocsPerRun(100, func() { b = AppendSequence(r.Append(b[:0]), 1) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	r := sample()
	text := line(&r)
	for b.Loop() {
		text = AppendSequence(r.Append(text[:0]), 1)
	}
}

func BenchmarkParse(b *testing.B) {
	r := sample()
	text := line(&r)
	for b.Loop() {
		if Parse(text, &r) != nil {
			b.Fatal()
		}
	}
}
