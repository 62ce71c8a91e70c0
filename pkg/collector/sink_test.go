package collector

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/pkg/hit"
)

// memorySink keeps its messages by partition, as a topic does, and counts them as an aggregator does. It keeps
// messages that it does not acknowledge, too.
type memorySink struct {
	mu         sync.Mutex
	partitions [][][]byte
	mute       bool // nothing is acknowledged
	blocked    bool // nothing is taken
	refuse     error
	delay      time.Duration
	waiting    []kafka.Message
	changed    chan struct{}
}

func newMemorySink(partitions int) *memorySink {
	return &memorySink{partitions: make([][][]byte, partitions), changed: make(chan struct{})}
}

func (s *memorySink) Send(ctx context.Context, messages ...kafka.Message) error {
	for {
		s.mu.Lock()
		if !s.blocked {
			break
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer s.mu.Unlock()
	for _, m := range messages {
		if s.refuse == nil {
			s.partitions[m.Partition] = append(s.partitions[m.Partition], m.Value)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	if s.mute {
		s.waiting = append(s.waiting, messages...)
		return nil
	}
	refuse := s.refuse
	answer := func() {
		for _, m := range messages {
			m.Done(0, refuse)
		}
	}
	if s.delay == 0 {
		go answer()
	} else {
		time.AfterFunc(s.delay, answer)
	}
	return nil
}

// unmute acknowledges all earlier and later messages.
func (s *memorySink) unmute() {
	s.mu.Lock()
	waiting := s.waiting
	s.mute, s.waiting = false, nil
	s.mu.Unlock()
	for _, m := range waiting {
		m.Done(0, nil)
	}
}

func (s *memorySink) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// counted is the count, by rule and key, of an aggregator that reads all partitions, and the number of batches that
// contradict earlier ones.
func (s *memorySink) counted(t testing.TB) (keys map[string]int64, conflicts int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	keys = map[string]int64{}
	var r hit.Reader
	for number, partition := range s.partitions {
		positions := hit.NewPositions(10_000, 48*time.Hour)
		for _, record := range partition {
			if err := r.Reset(record); err != nil {
				t.Fatal(err)
			}
			switch positions.Judge(r.Header(), r.Checksum(), time.Now().UnixMilli()) {
			case hit.Conflict:
				conflicts++
			case hit.Apply:
				for _, item := range r.Items() {
					pair := r.Pairs()[item.Pair]
					name := r.Rules()[pair.Rule]
					if got := hit.Partition(name, pair.Key, len(s.partitions)); got != number {
						t.Fatalf("%s %s is in partition %d, not in %d", name, pair.Key, number, got)
					}
					keys[name+" "+string(pair.Key)] += item.Cost
				}
			}
		}
	}
	return keys, conflicts
}

// await waits until the count is as wanted, without contradictions.
func (s *memorySink) await(t testing.TB, want map[string]int64) {
	t.Helper()
	s.awaitKeys(t, want)
	if _, conflicts := s.counted(t); conflicts > 0 {
		t.Fatalf("%d conflicts", conflicts)
	}
}

// awaitKeys is await that allows contradictions.
func (s *memorySink) awaitKeys(t testing.TB, want map[string]int64) {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		got, conflicts := s.counted(t)
		if maps.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("counted %s, want %s; %d conflicts", brief(got), brief(want), conflicts)
		}
	}
}

func brief(keys map[string]int64) string {
	total := int64(0)
	for _, n := range keys {
		total += n
	}
	text := fmt.Sprintf("%d hits of %d keys", total, len(keys))
	if len(keys) < 20 {
		text += fmt.Sprint(" ", keys)
	}
	return text
}
