package enforcer

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"weir/internal/keys"
	"weir/pkg/blocklist"
)

const (
	streamChanges = 128      // that are read at a time
	streamBytes   = 16 << 10 // of events that are sent at a time, and kept for the next ones
)

// stillThere is the interval of comments that keep a quiet stream alive.
const stillThere = 15 * time.Second

// A stream writes changes as events to one client.
type stream struct {
	set     *blocklist.Set
	now     func() time.Time
	to      *patientWriter
	flush   func() error
	wanted  func(*blocklist.Entry) bool
	at      blocklist.Version
	may     func() bool     // whether the key is still valid
	waiting map[string]bool // ids of orders that were sent before the log has brought them
	room    bytes.Buffer

	place func() (leave func(), err error) // for answers with the complete list
	turns turns
	gone  bool // it cannot go on, or there was no place: the client comes again
}

// stream answers with one event per changed entry. A client without a version gets the changes from now on. A client
// with an unknown version, or one that does not keep up, gets the event reset, then all active entries, then the event
// whole.
func (e *Enforcer) stream(w http.ResponseWriter, r *http.Request, q *listRequest) error {
	leave, err := e.follows()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer e.endWith(cancel)()
	s := &stream{set: e.config.Set, now: e.config.Now, to: &patientWriter{to: w}, flush: http.NewResponseController(w).Flush, wanted: q.wanted(), at: q.after, waiting: map[string]bool{}}
	s.turns, s.place = e.turns, func() (func(), error) { return place(r, e.listing, "are answered with the list") }

	// Asked before each write: a key may be removed while its stream runs.
	s.may = func() bool {
		_, err := e.Admit(r, keys.Read)
		return err == nil
	}

	if !q.since {
		s.at = s.set.Version()
	}
	w.Header().Set("Content-Type", eventStream)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	if s.flush() == nil {
		s.run(ctx)
	}

	return nil
}

// run writes until the context is done, the client has gone, or its key was removed.
func (s *stream) run(ctx context.Context) {
	ticker := time.NewTicker(stillThere)
	defer ticker.Stop()
	for s.may() {
		// Taken before the changes are read, so that none is missed in between.
		changed := s.set.Changed()
		more := s.write()
		if s.send() != nil || s.gone {
			return
		}
		if more {
			continue
		}
		if s.room.Cap() > 2*streamBytes {
			s.room = bytes.Buffer{}
		}

		select {
		case <-changed:
		case <-ticker.C:
			s.room.WriteString(": still there\n\n")
		case <-ctx.Done():
			return
		}
	}
}

// write writes the changes, most of them to the client already, and returns whether there are more.
func (s *stream) write() (more bool) {
	changes, version, ok := s.set.Changes(s.at, streamChanges)
	// A version that this enforcer has not reached yet will come; one that it does not know needs a reset.
	if !ok {
		if s.set.Whole() && !s.set.NotYet(s.at) {
			s.reset()
		}
		return false
	}

	// The client already got an order that waited for the log, so the record that brings it is not sent again.
	for _, change := range changes {
		entry := change.Entry()
		if entry != nil && s.waiting[entry.ID] {
			delete(s.waiting, entry.ID)
			continue
		}
		s.entry(entry, blocklist.Version{List: version.List, Offset: change.Offset})
		if s.sendFull(); s.gone {
			return false
		}
	}

	s.at = version
	if len(changes) == streamChanges {
		return true
	}

	// Orders are active before the log has them, so they are sent at once, without a version to continue from.
	for _, order := range s.set.Pending() {
		if !s.waiting[order.ID] {
			s.waiting[order.ID] = true
			s.entry(order.Entry(), blocklist.Version{})
			if s.sendFull(); s.gone {
				return false
			}
		}
	}

	return false
}

// reset writes all active entries. It has the bounds of other complete lists: a place, a turn, and a deadline.
func (s *stream) reset() {
	leave, err := s.place()
	if err != nil {
		s.gone = true
		return
	}
	defer leave()
	s.turns.acquire()
	defer s.turns.release()

	// The deadline is for this one answer, not for the stream.
	patient := s.to
	s.to = &patientWriter{to: hurry(patient.to), turns: s.turns}
	defer func() { s.to = patient }()

	// Before the entries are read: changes meanwhile are sent again, as changes.
	s.at = s.set.Version()
	fmt.Fprintf(&s.room, "event: reset\ndata: {\"version\":%q}\n\n", s.at)
	for entry := range s.set.All(s.now().UnixMilli()) {
		s.entry(entry, blocklist.Version{})
		if s.room.Len() > 64<<10 && s.send() != nil {
			return
		}
	}
	fmt.Fprintf(&s.room, "id: %s\nevent: whole\ndata: {}\n\n", s.at)
}

// entry writes an event; the version is its id, from which a client can continue.
func (s *stream) entry(e *blocklist.Entry, at blocklist.Version) {
	if e == nil || s.wanted != nil && !s.wanted(e) {
		return
	}
	text, err := e.MarshalJSON()
	if err != nil {
		return
	}
	if at != (blocklist.Version{}) {
		fmt.Fprintf(&s.room, "id: %s\n", at)
	}
	fmt.Fprintf(&s.room, "event: entry\ndata: %s\n\n", text)
}

// sendFull sends the events when there are enough of them. A client that reads slowly keeps no more in memory.
func (s *stream) sendFull() {
	if s.room.Len() >= streamBytes && s.send() != nil {
		s.gone = true
	}
}

func (s *stream) send() error {
	if s.room.Len() == 0 {
		return nil
	}
	defer s.room.Reset()
	if _, err := s.to.Write(s.room.Bytes()); err != nil {
		return err
	}
	return s.flush()
}
