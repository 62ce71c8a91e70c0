// Package proof keeps what the topic weir.evidence has of the entries of the blocklist, in memory: the last requests
// that counted for each, from all collectors, by the entry's id.
//
// A Store takes at most so many bytes; the entries that were written to first lose their evidence first. It begins with
// the last records of the topic, about as many as it has room for, so a restart loses nothing that it would keep. Run
// has a goroutine for each partition, and returns when all have ended. While the topic cannot be read, what was read
// stays.
package proof

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/internal/topic"
	"weir/pkg/evidence"
)

// A Config is what a Store needs.
type Config struct {
	Log     topic.Log
	Topic   topic.Topic
	Bytes   int          // of records, with what keeping them takes
	Logger  *slog.Logger // nil is silence
	Metrics prometheus.Registerer
}

// overhead is what the maps and lists take of each entry besides its record, about.
const overhead = 300

// usualBytes is about the size of a record: so many bytes of a Store are one record of the topic at the start.
const usualBytes = 1 << 10

// A Store has the evidence of entries. It may be asked by several goroutines.
type Store struct {
	config Config
	faults *telemetry.Faults
	unread prometheus.Counter

	mu    sync.Mutex
	byID  map[string]*list.Element // of held
	order *list.List               // the last that was written to is at the front
	bytes int
}

// A held is the records of one entry, merged.
type held struct {
	id   string
	line []byte // the record in its JSON form
}

func (h *held) size() int { return len(h.line) + len(h.id) + overhead }

// New makes a Store.
func New(config Config) *Store {
	s := &Store{config: config, byID: map[string]*list.Element{}, order: list.New()}
	s.faults = telemetry.NewFaults(cmp.Or(config.Logger, slog.New(slog.DiscardHandler)))
	s.unread = telemetry.Register(config.Metrics, prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_enforcer_evidence_unread_total",
		Help: "Records of evidence that were left out: they are damaged, or of a later version."}))
	return s
}

// Of returns the evidence of an entry, newest request first.
func (s *Store) Of(id string) (*evidence.Record, bool) {
	s.mu.Lock()
	var line []byte
	if at := s.byID[id]; at != nil {
		line = at.Value.(*held).line
	}
	s.mu.Unlock()
	if line == nil {
		return nil, false
	}
	r, err := evidence.Parse(line)
	return r, err == nil
}

// Add adds a record of the topic.
func (s *Store) Add(line []byte) error {
	r, err := evidence.Parse(line)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.byID[r.ID]
	if at != nil {
		before, err := evidence.Parse(at.Value.(*held).line)
		if err != nil {
			return err
		}
		before.Merge(r)
		r = before
	}
	if line, err = r.Append(nil); err != nil {
		return err
	}

	one := &held{id: r.ID, line: line}
	if at != nil {
		s.bytes += one.size() - at.Value.(*held).size()
		at.Value = one
		s.order.MoveToFront(at)
	} else {
		s.byID[one.id] = s.order.PushFront(one)
		s.bytes += one.size()
	}
	for s.bytes > s.config.Bytes && s.order.Len() > 0 {
		oldest := s.order.Remove(s.order.Back()).(*held)
		delete(s.byID, oldest.id)
		s.bytes -= oldest.size()
	}
	return nil
}

// Run reads the topic until the context is done. It waits for a topic that does not exist yet.
func (s *Store) Run(ctx context.Context) {
	var spans []topic.Span
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		var err error
		if spans, err = s.config.Log.Offsets(ctx, s.config.Topic.Name); err == nil {
			s.faults.Over("evidence")
			break
		}
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, topic.ErrNoTopic) { // collectors make it
			s.failed("evidence", err)
		}
		sleep.For(ctx, pause)
	}

	var running sync.WaitGroup
	for partition, span := range spans {
		last := int64(s.config.Bytes / usualBytes / len(spans))
		from := max(span.Start, span.End-last)
		running.Go(func() { s.read(ctx, s.config.Log.Reader(s.config.Topic.Name, partition, from, 0), partition) })
	}
	running.Wait()
}

func (s *Store) failed(what string, err error) {
	s.faults.Note(what, fmt.Errorf("the evidence of entries cannot be shown: %w", err))
}

func (s *Store) read(ctx context.Context, records topic.Reader, partition int) {
	what := fmt.Sprintf("evidence/%d", partition)
	topic.SetPatient(records, true)
	for ctx.Err() == nil {
		found, err := records.Fetch(ctx)
		switch {
		case err == nil:
			s.faults.Over(what)
		case ctx.Err() != nil:
			return
		case errors.Is(err, topic.ErrTrimmed), errors.Is(err, topic.ErrPastEnd): // or the topic was made again
			records.SetNext(records.Span().Start)
			continue
		default: // the reader has paused
			s.failed(what, err)
			continue
		}
		for i := range found {
			if err := s.Add(found[i].Value); err != nil {
				s.unread.Inc()
				s.faults.Note("records of evidence", fmt.Errorf("a record at %d of partition %d is left out: %w", found[i].Offset, partition, err))
			}
		}
	}
}
