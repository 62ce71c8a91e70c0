package journal

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"weir/internal/topic"
)

const notesPrefix = "collector/"

// noteKey is the key of a source's note. A collector that lost its journal has another id, and reads no note.
func (j *Journal) noteKey(source string) []byte { return []byte(notesPrefix + j.ID + "/" + source) }

// HasNotes reports whether cuts are sent with Land.
func (j *Journal) HasNotes() bool { return j.notes != nil }

// Land sends the messages of a cut together with its note.
func (j *Journal) Land(ctx context.Context, c *Cut, messages []topic.Message) error {
	state := entry{kind: entryLog, log: c.after()}.append(nil)
	notes := []topic.Note{{Key: j.noteKey(c.Source), Value: state}}
	if len(c.Seen) > 0 {
		notes = append(notes, j.seenNote(c))
	}
	return j.notes.Together(ctx, messages, notes, !c.Unsynced)
}

// after is the state of the log behind the cut.
func (c *Cut) after() Log { return Log{c.Source, c.To, c.Reached, c.Note} }

// landed notes that the log has a cut whose note went with its hits; false for other cuts.
func (j *Journal) landed(source string, to int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	cuts := j.flying[source]
	if len(cuts) == 0 || cuts[0].To != to { // cuts are done in their order
		return false
	}
	if j.flying[source] = cuts[1:]; len(cuts) == 1 {
		delete(j.flying, source)
	}
	if len(cuts[0].Seen) > 0 {
		j.queue = append(j.queue, change{entry: cuts[0].seenOf()})
	}
	j.queue = append(j.queue, change{entry: entry{kind: entryLog, log: cuts[0].after()}})
	return true
}

// readNotes takes the states from the notes that are later than those in the file, and removes the notes of other
// collectors.
func (j *Journal) readNotes() error {
	ctx := context.Background()
	all, err := j.notes.Notes(ctx, []byte(notesPrefix))
	if err != nil {
		return fmt.Errorf("reading the notes of logs: %w", err)
	}

	var others []topic.Note
	own := j.noteKey("")
	for _, n := range all {
		if !bytes.HasPrefix(n.Key, own) {
			others = append(others, topic.Note{Key: n.Key})
			continue
		}
		e, rest, ok := cutEntry(n.Value)
		if !ok || len(rest) > 0 || e.kind != entryLog {
			return fmt.Errorf("the note %q cannot be read", n.Key)
		}
		if known := j.state.logs[e.log.Source]; known == nil || known.Position < e.log.Position {
			j.state.land(e.log)
		}
	}

	if err := j.readSeen(); err != nil {
		return fmt.Errorf("reading the notes of values: %w", err)
	}
	if len(others) == 0 {
		return nil
	}
	return j.notes.Together(ctx, nil, others, true)
}

// land takes the state of a log that is later than that in the file: the log of hits has all cuts before it.
func (s *state) land(log Log) {
	delete(s.cuts, log.Source)
	s.recovered = slices.DeleteFunc(s.recovered, func(c *Cut) bool { return c.Source == log.Source })
	s.apply(entry{kind: entryLog, log: log})
}

// forgetNote removes a source's note. When that fails, the next start finds the log again, and forgets it then.
func (j *Journal) forgetNote(source string) {
	if j.notes != nil {
		_ = j.notes.Together(context.Background(), nil, []topic.Note{{Key: j.noteKey(source)}}, true)
	}
}

// standing adds the cuts whose notes go with their hits to what the file has of a source.
func (j *Journal) standing(source string, log *Log, outstanding []*Cut) (*Log, []*Cut) {
	j.mu.Lock()
	defer j.mu.Unlock()
	cuts := j.flying[source]
	if n := len(cuts); n > 0 {
		log = new(cuts[n-1].after())
	}
	return log, append(outstanding, cuts...)
}
