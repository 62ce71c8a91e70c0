package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/kafka"
)

// weir cat --follow shows new records at once, and an interrupt is its usual end.
func TestCatFollows(t *testing.T) {
	folder := liveFolder(t)
	b, err := startBroker(filepath.Join(folder, "broker"), filepath.Join(folder, "broker", "kafka.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := fillSamples(b.Client); err != nil {
		t.Fatal(err)
	}
	p := start(t, "cat", "hits", "--json", "--follow", "--partition", "1", "--set", "data="+folder, "--set", "rules=[{name: r, key: ip, limits: [1/s]}]")
	if got := readBatch(t, p); got.From != 2000 {
		t.Errorf("first %+v", got)
	}
	hits, err := makeLog(t.Context(), b.Client, "weir.hits", 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []int64{7000, 8000} {
		if err := hits.put(t.Context(), kafka.Message{Partition: 1, Value: sampleBatch(from)}, kafka.Message{Value: sampleBatch(from)}); err != nil {
			t.Fatal(err)
		}
		if got := readBatch(t, p); got.From != from || got.Partition != 1 || len(got.Hits) != 3 {
			t.Errorf("%+v", got)
		}
	}
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil || p.err.Len() > 0 {
		t.Errorf("%v, and %q", err, p.err)
	}
}

func readBatch(t *testing.T, p process) (b struct {
	Partition int
	From      int64
	Hits      []any
}) {
	t.Helper()
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &b)
	}
	if err != nil {
		t.Fatalf("%v: %q, and %q", err, line, p.err)
	}
	return b
}

// Missing records and another log in the place of the first are reported, and reading goes on where it can.
func TestCatMissed(t *testing.T) {
	b, err := startBroker(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := fillSamples(b.Client); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, follow := range []bool{false, true} {
		p := &catPart{partition: 1, reader: b.Client.NewReader("weir.hits", 1, 50), end: 60}
		stderr := &lockedBuffer{}
		r := &catRun{client: b.Client, topic: "weir.hits", shown: newCatWriter(&lockedBuffer{}, stderr, "weir.hits", "json")}
		p.show = func(*kafka.Record) { cancel() }
		err := r.read(ctx, p, follow)
		if want := "weir: weir.hits/1: the log ends at 1, before 50; the topic was made again, and is shown from its beginning\n"; follow && stderr.String() != want {
			t.Errorf("%q", stderr)
		}
		if !follow && (err == nil || err.Error() != "fetching weir.hits/1: the log ends at 1, before 50") {
			t.Error(err)
		}
	}
}
