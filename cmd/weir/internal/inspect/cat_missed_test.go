package inspect

import (
	"context"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/test/locked"
	"weir/test/running"
)

// Missing records and another log in the place of the first are reported, and reading goes on where it can.
func TestCatMissed(t *testing.T) {
	b, err := running.StartTopics(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := running.FillSamples(b.Log); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, follow := range []bool{false, true} {
		p := &catPart{partition: 1, reader: b.Log.Reader("weir.hits", 1, 50, 0), end: 60}
		stderr := &locked.Buffer{}
		r := &catRun{client: b.Log, topic: "weir.hits", shown: newCatWriter(&locked.Buffer{}, stderr, "weir.hits", "json")}
		p.show = func(*topic.Record) { cancel() }
		err := r.read(ctx, p, follow)
		if want := "weir: weir.hits/1: the log ends at 1, before 50; the topic was made again, and is shown from its beginning\n"; follow && stderr.String() != want {
			t.Errorf("%q", stderr)
		}
		if !follow && (err == nil || err.Error() != "fetching weir.hits/1: the log ends at 1, before 50") {
			t.Error(err)
		}
	}
}

// leaderless is a log whose partitions get a leader after some questions.
type leaderless struct {
	topic.Log
	questions int
}

func (l *leaderless) Offsets(ctx context.Context, name string) ([]topic.Span, error) {
	if l.questions--; l.questions >= 0 {
		return nil, topic.Errorf(topic.ErrNoLeader, "no leader yet")
	}
	return l.Log.Offsets(ctx, name)
}

// A topic whose leaders are just elected is read a moment later.
func TestCatWaitsForLeaders(t *testing.T) {
	b, err := running.StartTopics(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := running.FillSamples(b.Log); err != nil {
		t.Fatal(err)
	}
	r := &catRun{client: &leaderless{b.Log, 3}, topic: "weir.hits", newShow: func(int) func(*topic.Record) { return nil }}
	if err := r.open(t.Context(), catFrom{offset: atEarliest}, -1); err != nil || len(r.parts) == 0 {
		t.Error(len(r.parts), err)
	}
}
