// Package sink has a topic of hits in memory, which tests send to, and two readers of it: one counts as an aggregator
// does, and a textbook finds what a sorted log shows.
package sink

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/pkg/hit"
)

// A Memory keeps its messages by partition, as a topic does, and counts them as an aggregator does. It keeps messages
// that it does not acknowledge, too. While it is in use its fields are changed by Set.
type Memory struct {
	mu         sync.Mutex
	Partitions [][][]byte
	Mute       bool // nothing is acknowledged
	Blocked    bool // nothing is taken
	Refuse     error
	Delay      time.Duration
	waiting    []topic.Message
	changed    chan struct{}
}

// New makes a topic with a number of partitions.
func New(partitions int) *Memory {
	return &Memory{Partitions: make([][][]byte, partitions), changed: make(chan struct{})}
}

// Send keeps messages.
func (s *Memory) Send(ctx context.Context, messages ...topic.Message) error {
	for {
		s.mu.Lock()
		if !s.Blocked {
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
		if s.Refuse == nil {
			s.Partitions[m.Partition] = append(s.Partitions[m.Partition], m.Value)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	if s.Mute {
		s.waiting = append(s.waiting, messages...)
		return nil
	}
	refuse := s.Refuse
	answer := func() {
		for _, m := range messages {
			m.Done(0, refuse)
		}
	}
	if s.Delay == 0 {
		go answer()
	} else {
		time.AfterFunc(s.Delay, answer)
	}
	return nil
}

// Unmute acknowledges all earlier and later messages.
func (s *Memory) Unmute() {
	s.mu.Lock()
	waiting := s.waiting
	s.Mute, s.waiting = false, nil
	s.mu.Unlock()
	for _, m := range waiting {
		m.Done(0, nil)
	}
}

// Set changes fields.
func (s *Memory) Set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Counted is the count, by rule and key, of an aggregator that reads all partitions, and the number of batches that
// contradict earlier ones.
func (s *Memory) Counted(t testing.TB) (keys map[string]int64, conflicts int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	keys = map[string]int64{}
	var r hit.Reader
	for number, partition := range s.Partitions {
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
					if got := hit.Partition(name, pair.Key, len(s.Partitions)); got != number {
						t.Fatalf("%s %s is in partition %d, not in %d", name, pair.Key, number, got)
					}
					keys[name+" "+string(pair.Key)] += item.Cost
				}
			}
		}
	}
	return keys, conflicts
}

// Await waits until the count is as wanted, without contradictions.
func (s *Memory) Await(t testing.TB, want map[string]int64) {
	t.Helper()
	s.AwaitKeys(t, want)
	if _, conflicts := s.Counted(t); conflicts > 0 {
		t.Fatalf("%d conflicts", conflicts)
	}
}

// AwaitKeys is Await that allows contradictions.
func (s *Memory) AwaitKeys(t testing.TB, want map[string]int64) {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		got, conflicts := s.Counted(t)
		if maps.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("counted %s, want %s; %d conflicts", Brief(got), Brief(want), conflicts)
		}
	}
}

// Brief describes counts in a line.
func Brief(keys map[string]int64) string {
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

// Items returns all hits in the order in which they were sent. They have one key, so all are in one partition.
func (s *Memory) Items(t *testing.T) (items []hit.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var r hit.Reader
	for _, partition := range s.Partitions {
		for _, record := range partition {
			if err := r.Reset(record); err != nil {
				t.Fatal(err)
			}
			items = append(items, r.Items()...)
		}
	}
	return items
}

// Records is the number of records in all partitions.
func (s *Memory) Records() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Partitions {
		n += len(p)
	}
	return n
}

// Sources are the sources of all batches.
func (s *Memory) Sources(t testing.TB) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]bool{}
	var r hit.Reader
	for _, p := range s.Partitions {
		for _, record := range p {
			if err := r.Reset(record); err != nil {
				t.Fatal(err)
			}
			found[r.Header().Source] = true
		}
	}
	return found
}
