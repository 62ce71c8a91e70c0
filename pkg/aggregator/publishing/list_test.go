package publishing

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/pkg/blocklist"
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

// A log that lost its end, and that new records have filled again before anyone looked, is found by an offset that
// it gave twice.
func TestAnOffsetThatComesTwiceBeginsAList(t *testing.T) {
	first := blocklist.ListID{Name: "x", Epoch: 5}
	later := blocklist.ListID{Name: "x", Epoch: 7}
	for name, step := range map[string]struct {
		arrive func(*List)
		back   bool
	}{
		"behind the end":           {func(l *List) { l.arrived(8, l.place()) }, false},
		"in order":                 {func(l *List) { sent := l.place(); l.arrived(8, sent); l.arrived(9, sent); l.arrived(10, l.place()) }, false},
		"acknowledged late":        {func(l *List) { sent := l.place(); l.arrived(9, l.place()); l.arrived(8, sent) }, false},
		"at the end that was":      {func(l *List) { l.arrived(7, l.place()) }, true},
		"before the end that was":  {func(l *List) { l.arrived(3, l.place()); l.arrived(8, l.place()) }, true},
		"sent before a list began": {func(l *List) { sent := l.place(); l.next(5, 3); l.arrived(4, sent) }, false},
		"sent before others began": {func(l *List) { sent := l.place(); l.adopt(later, 3); l.arrived(4, sent) }, false},
		"another list began later": {func(l *List) { l.arrived(3, l.place()); l.adopt(later, 4); l.arrived(5, l.place()) }, false},
		"noted when a list was earlier": {func(l *List) {
			l.next(5, 3)
			l.seen(context.Background(), "x-5", "here/b/1", 7)
			l.arrived(4, l.place())
		}, false},
	} {
		list := NewList(Config{Topic: aTopic("here/b/1"), Agreed: func(context.Context) (string, error) { return "x-5", nil },
			Logger: slog.New(slog.DiscardHandler), Now: time.Now}, first.String())
		if same, err := list.seen(t.Context(), "x-5", "here/b/1", 7); err != nil || !same {
			t.Fatal(same, err)
		}
		step.arrive(list)
		if list.wentBack() != step.back {
			t.Errorf("%s: %t", name, list.wentBack())
		}
		if !step.back {
			continue
		}
		if err := list.begin(t.Context(), topic.Span{End: 9}); err != nil || list.wentBack() || list.ID().Compare(first) <= 0 || list.Newest() != 8 {
			t.Errorf("%s: %v, %t, %v, %d", name, err, list.wentBack(), list.ID(), list.Newest())
		}
	}
}
