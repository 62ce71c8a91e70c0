package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"weir/internal/seen"
	"weir/internal/topic"
)

// A source may remember values of requests, to count each once. A value counts as seen if, and only if, the journal has the
// cut of its request: the values stand before the cut, and without it they are left out when the file is read. With notes,
// they are in a note of their own in the write that has the hits, until the file has them. So a request that is read again
// after a crash finds exactly the values of the requests that are not.

// A memory is the last values of a source, in pages. It has up to a page more than most.
type memory struct {
	pages [][]seen.Value
	most  int
}

const pageValues = 4096

func (m *memory) add(values []seen.Value) {
	for _, v := range values {
		last := len(m.pages) - 1
		if last < 0 || len(m.pages[last]) == pageValues {
			m.pages = append(m.pages, make([]seen.Value, 0, pageValues))
			last++
		}
		m.pages[last] = append(m.pages[last], v)
	}
	m.trim()
}

// trim drops the oldest pages that are not needed. Before the sources are known, all are.
func (m *memory) trim() {
	n := 0
	for m.most > 0 && (len(m.pages)-n-2)*pageValues >= m.most {
		n++
	}
	if n > 0 {
		m.pages = slices.Delete(m.pages, 0, n)
	}
}

// see takes values, at once or when the state has their cut.
func (s *state) see(e entry) {
	if e.log.Source != "" {
		s.unsure[e.log.Source] = append(s.unsure[e.log.Source], e)
		return
	}
	if s.memories[e.by] == nil {
		s.memories[e.by] = &memory{}
	}
	s.memories[e.by].add(e.seen)
}

// count takes the values of the cuts of a source up to a position.
func (s *state) count(source string, position int64) {
	all := s.unsure[source]
	if len(all) == 0 {
		return
	}
	left := all[:0]
	for _, e := range all {
		if e.log.Position > position {
			left = append(left, e)
			continue
		}
		s.see(entry{by: e.by, seen: e.seen})
	}
	if s.unsure[source] = left; len(left) == 0 {
		delete(s.unsure, source)
	}
}

// remember sets how many values each source remembers. Those of others are dropped.
func (s *state) remember(most map[string]int) {
	for by, m := range s.memories {
		if m.most = most[by]; m.most == 0 {
			delete(s.memories, by)
			continue
		}
		m.trim()
	}
	for by, n := range most {
		if s.memories[by] == nil {
			s.memories[by] = &memory{most: n}
		}
	}
}

// Seen returns the values that a source remembered when the journal was opened, in their order. It is called before sources
// run.
func (j *Journal) Seen(by string) []seen.Value {
	if m := j.state.memories[by]; m != nil {
		return slices.Concat(m.pages...)
	}
	return nil
}

// seenOf is the entry of a cut's values; without any it has none.
func (c *Cut) seenOf() entry {
	return entry{kind: entrySeen, by: c.SeenBy, log: Log{Source: c.Source, Position: c.To}, seen: c.Seen}
}

const seenPrefix = "seen/"

// seenNote is the note with the values of a cut; seenKey is its key.
func (j *Journal) seenNote(c *Cut) topic.Note {
	return topic.Note{Key: j.seenKey(c.Source, c.To), Value: c.seenOf().append(nil)}
}

func (j *Journal) seenKey(source string, to int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(seenPrefix+j.ID+"/"+source+"/"), uint64(to))
}

// readSeen takes the values from the notes. The log of hits has their cuts.
func (j *Journal) readSeen() error {
	all, err := j.notes.Notes(context.Background(), []byte(seenPrefix))
	if err != nil {
		return err
	}
	for _, n := range all {
		if e, _, ok := cutEntry(n.Value); ok && e.kind == entrySeen && bytes.HasPrefix(n.Key, []byte(seenPrefix+j.ID+"/")) {
			j.state.see(entry{by: e.by, seen: e.seen})
		}
		j.written = append(j.written, topic.Note{Key: n.Key})
	}
	return nil
}

// forgetWritten removes the notes whose values the file has. If that fails, a later call does it.
func (j *Journal) forgetWritten() {
	if len(j.written) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), syncPatience)
	defer cancel()
	if j.notes.Together(ctx, nil, j.written, false) == nil {
		j.written = j.written[:0]
	}
}
