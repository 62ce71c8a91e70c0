package pipeline

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/seen"
	"weir/pkg/request"
)

// A Dedupe counts each request once that a source has several times, by a value that the server gives each request.
type Dedupe struct {
	By     string        // a further field of requests
	Within time.Duration // of request time, between the request that counted and one that does not
	Most   int           // values that are remembered
}

// The streams of a source share a memory, and a request takes a lock for some ten nanoseconds. Only sources with dedupe do.
//
// Values go to the journal with the cut of their request (journal/seen.go). A stream that ends forgets the values of cuts that
// it has not given to the journal, because their requests are read again. So a request that is dropped has a twin that counts,
// or that is still to be read.
type seenValues struct {
	dedupe Dedupe
	prefix []byte // of what is hashed

	mu     sync.Mutex
	memory *seen.Memory
	early  int64 // that the metrics have

	values     prometheus.Gauge
	earlyTotal prometheus.Counter
}

// cutSeen is how many values end a cut, so that it stays small.
const cutSeen = 1 << 14

func newSeenValues(d Dedupe, m *metrics, source string) *seenValues {
	return &seenValues{dedupe: d, memory: seen.New(d.Most, d.Within), values: m.seenValues.WithLabelValues(source), earlyTotal: m.seenEarly.WithLabelValues(source)}
}

// Remember makes the values seen that the journal has. secret is part of what is hashed: it must be the same as when they
// were kept, and unknown to clients. It is called before the source runs, and does nothing for a source without dedupe.
func (in *Intake) Remember(secret string, values []seen.Value) {
	if in.seen == nil {
		return
	}
	in.seen.prefix = []byte(secret + "\x00" + in.seen.dedupe.By + "\x00")
	for _, v := range values {
		in.seen.memory.Add(v)
	}
	in.seen.memory.Early = 0 // the run before has counted them
	in.seen.publish()
}

func (v *seenValues) add(value seen.Value) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.memory.Add(value)
}

func (v *seenValues) forget(values []seen.Value) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, value := range values {
		v.memory.Forget(value)
	}
}

// forgetLost forgets the values of a cut that Kafka has refused: a sender may send its requests again.
func (v *seenValues) forgetLost(c *Cut) {
	if v != nil {
		v.forget(c.Seen)
	}
}

// publish sets the metrics, and returns how many values had to go early since the last call.
func (v *seenValues) publish() (early int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	early, v.early = v.memory.Early-v.early, v.memory.Early
	v.earlyTotal.Add(float64(early))
	v.values.Set(float64(v.memory.Len()))
	return early
}

// status is what the memory has; nil without one.
func (v *seenValues) status() *SeenStatus {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return &SeenStatus{Values: v.memory.Len(), Most: v.memory.Most(), Early: v.memory.Early}
}

// longestKept is how large the memory for a value may stay.
const longestKept = 4 << 10

// seenBefore reports whether the value of a request was seen; from now on it is. A request without a value was not.
func (s *Stream) seenBefore(r *request.Request) bool {
	value := s.ids.Of(r)
	if value == "" {
		return false
	}
	s.watch.values++
	s.seenText = append(append(s.seenText[:0], s.in.seen.prefix...), value...)
	if s.nth > 1 && slices.Contains(s.in.config.Outer, s.ids.By) { // all requests of a record have its header
		s.seenText = strconv.AppendInt(append(s.seenText, 0), int64(s.nth), 10)
	}
	sum := sha256.Sum256(s.seenText)
	if cap(s.seenText) > longestKept {
		s.seenText = nil
	}
	v := seen.Value{Hash: binary.LittleEndian.Uint64(sum[:]), At: r.UnixMilli}
	if s.in.seen.add(v) {
		return true
	}
	s.open.Seen = append(s.open.Seen, v)
	s.full = s.full || len(s.open.Seen) >= cutSeen
	return false
}

var errSeenEarly = errors.New("values are forgotten while they could still be seen, because more come than dedupe.values: a request that is logged twice may count twice; set dedupe.values higher, or dedupe.within lower")

// publishSeen is called for each cut.
func (s *Stream) publishSeen() {
	if s.in.seen != nil && s.in.seen.publish() > 0 {
		s.in.faults.Note("dedupe", errSeenEarly)
	}
}

// forgetUnnoted forgets the values of requests that are read again.
func (s *Stream) forgetUnnoted() {
	if s.in.seen == nil {
		return
	}
	if s.open != nil {
		s.in.seen.forget(s.open.Seen)
	}
	for _, c := range s.flying {
		if !c.submitted {
			s.in.seen.forget(c.Seen)
		}
	}
}
