package publishing

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"weir/internal/topic"
)

// aTopic is one in which nothing is read.
type aTopic topic.Identity

func (aTopic) End(context.Context) (int64, error)                 { return 9, nil }
func (aTopic) Reader(int64) Reader                                { return nil }
func (a aTopic) Identity(context.Context) (topic.Identity, error) { return topic.Identity(a), nil }

// Partitions find out about another topic one after the other: that is one list, of a greater epoch than all that were in
// other topics.
func TestAnotherTopicIsOneList(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	agreed := func(context.Context) (string, error) { return "x", nil }
	list := NewList(Config{Topic: aTopic("here/blocklist/1"), Agreed: agreed, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}, "x")
	for _, step := range []struct {
		id     string
		in     topic.Identity
		same   bool
		want   string
		newest int64
	}{
		{"", "", true, "x-0", 7}, // nothing was published before
		{"x-0", "there/blocklist/1", false, "x-1800000000000", unknown},
		{"x-0", "there/blocklist/1", false, "x-1800000000000", unknown},
		{"x-3", "", false, "x-1800000000000", unknown},
		{"x-1800000000000", "", false, "x-1800000000000", unknown}, // adopted by a program that notes no topics
		{"x-1800000000000", "there/blocklist/1", false, "x-1800000000001", unknown},
		{"x-1800000000005", "here/blocklist/1", true, "x-1800000000005", 7}, // begun by another process
		{"x-1800000000009", "here/blocklist/0", false, "x-1800000000010", unknown},
		{"x-1800000000020", "here/blocklist/", true, "x-1800000000020", 7}, // noted while the brokers knew no ids
	} {
		same, err := list.seen(t.Context(), step.id, step.in, 7)
		if got := list.ID().String(); err != nil || same != step.same || got != step.want || list.Newest() != step.newest {
			t.Errorf("%+v: %t, %v, %s, %d", step, same, err, got, list.Newest())
		}
	}
}

// A topic that was made again together with the store begins a list of another name, and only when the store can say so.
func TestAnotherTopicAndAnotherStoreAreAnotherList(t *testing.T) {
	now, agreed, away := time.UnixMilli(1_800_000_000_000), "x-5", error(nil)
	list := NewList(Config{Agreed: func(context.Context) (string, error) { return agreed, away }, Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return now }}, agreed)
	for _, step := range []struct {
		topic  topic.Identity
		agreed string
		away   error
		want   string
	}{
		{"here/blocklist/1", "x-5", nil, "x-5"},
		{"here/blocklist/2", "x-5", nil, "x-1800000000000"}, // the same store
		{"here/blocklist/3", "", errors.New("the disk has failed"), "x-1800000000000"},
		{"here/blocklist/3", "y-7", nil, "y-1800000000001"},
		{"here/blocklist/3", "z-9", nil, "y-1800000000001"}, // the topic is the same
		{"here/blocklist/4", "z-1900000000000", nil, "z-1900000000001"},
	} {
		agreed, away = step.agreed, step.away
		if _, err := list.found(t.Context(), step.topic); !errors.Is(err, step.away) || list.ID().String() != step.want {
			t.Errorf("%+v: %v, %v", step, err, list.ID())
		}
	}
	if err := list.begin(t.Context(), topic.Span{End: 3}); err != nil || list.ID().String() != "z-1900000000002" || list.Newest() != 2 {
		t.Errorf("a shorter topic: %v, %v, %d", err, list.ID(), list.Newest())
	}
}

// A new leader that does not know the log's end for a moment is no other log; one that never does is.
func TestALogThatEndsTooEarlyIsDoubtedFirst(t *testing.T) {
	var d doubt
	at := time.Now()
	for _, step := range []struct {
		after time.Duration
		short bool
		lasts bool
	}{{0, true, false}, {shortPatience - 1, true, false}, {shortPatience, false, false}, {shortPatience + 1, true, false}, {2*shortPatience + 1, true, true}} {
		if d.lasts(step.short, at.Add(step.after)) != step.lasts {
			t.Errorf("after %v: %v", step.after, !step.lasts)
		}
	}
}
