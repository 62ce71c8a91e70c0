package main

import (
	"encoding/json"
	"os"
	"testing"

	"weir/internal/topic"
	"weir/test/running"
)

// weir cat --follow shows new records at once, and an interrupt is its usual end.
func TestCatFollows(t *testing.T) {
	folder := running.Folder(t)
	b, err := running.StartTopics(folder, true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := running.FillSamples(b.Log); err != nil {
		t.Fatal(err)
	}
	p := start(t, "cat", "hits", "--json", "--follow", "--partition", "1", "--set", "data="+folder, "--set", "rules=[{name: r, key: ip, limits: [1/s]}]")
	if got := readBatch(t, p); got.From != 2000 {
		t.Errorf("first %+v", got)
	}
	hits, err := running.MakeTopic(t.Context(), b.Log, "weir.hits", 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []int64{7000, 8000} {
		if err := hits.Put(t.Context(), topic.Message{Partition: 1, Value: running.SampleBatch(from)}, topic.Message{Value: running.SampleBatch(from)}); err != nil {
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
