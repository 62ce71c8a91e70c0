package topics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"weir/internal/topic"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
)

// Logs are the partitions in the collector's journal: those of sources without a group.
type Logs struct {
	journal *journal.Journal
	cuts    *pipeline.KeptCuts

	mu  sync.Mutex
	all map[logKey]*keptLog
}

// A logKey is a partition that a source reads.
type logKey struct {
	source string // its name
	topicPartition
}

// A keptLog is what the journal has of a partition.
type keptLog struct {
	log        string   // the present one, as the journal and the batches name it
	former     []string // of topics before: forgotten once Kafka has all of their hits
	begun      int64    // when the present one began, Unix ms
	partitions int      // of the topic at that time
}

// An aloneNote is the note in the journal of a partition that is read without a group. It names the source and the
// partition, and has of a kafkaNote the records that were read and the form.
type aloneNote struct {
	Source    string         `json:"source"`
	Topic     string         `json:"topic"`
	Partition int            `json:"partition"`
	Identity  topic.Identity `json:"identity"`
	Begun     int64          `json:"begun"` // when the partition was begun, Unix ms
	kafkaNote
}

// aloneMark begins these notes. As the length of a path it is too long for any note of a file.
var aloneMark = []byte{0xff, 0xff, 0xff, 0xff, 0x0f}

func (n aloneNote) bytes() []byte {
	n.Version = noteVersion
	text, _ := json.Marshal(n) // it is made of numbers and texts
	return slices.Concat(aloneMark, text)
}

func readAloneNote(b []byte) (n aloneNote, ok bool) {
	text, is := bytes.CutPrefix(b, aloneMark)
	return n, is && json.Unmarshal(text, &n) == nil && n.Version == noteVersion
}

func (n *aloneNote) key() logKey { return logKey{n.Source, topicPartition{n.Topic, n.Partition}} }

// NewLogs reads what a journal has of partitions.
func NewLogs(j *journal.Journal, cuts *pipeline.KeptCuts) *Logs {
	l := &Logs{journal: j, cuts: cuts, all: map[logKey]*keptLog{}}
	for _, log := range j.Logs() {
		note, ok := readAloneNote(log.Note)
		if !ok {
			continue
		}
		now := &keptLog{log: log.Source, begun: note.Begun, partitions: note.Partitions}
		if was := l.all[note.key()]; was != nil {
			if was.begun > now.begun {
				was, now = now, was
			}
			now.former = append(append(now.former, was.former...), was.log)
		}
		l.all[note.key()] = now
	}
	return l
}

// find returns the name of the present log of a partition; empty when nothing of it was read.
func (l *Logs) find(key logKey) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept := l.all[key]; kept != nil {
		return kept.log
	}
	return ""
}

// has reports whether the journal has any log of a source.
func (l *Logs) has(source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.all {
		if key.source == source {
			return true
		}
	}
	return false
}

// younger reports whether a partition was added to its topic after the source had begun to read that.
func (l *Logs) younger(key logKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, kept := range l.all {
		if other.source == key.source && other.topic == key.topic && kept.partitions <= key.number {
			return true
		}
	}
	return false
}

// begin makes a log the present one of its partition, and returns when the journal's file has it.
func (l *Logs) begin(ctx context.Context, log string, position int64, note aloneNote) error {
	l.journal.Set(journal.Log{Source: log, Position: position, Reached: pace.NoTime, Note: note.bytes()})
	if _, _, err := l.journal.Standing(ctx, log); err != nil {
		return err
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	now := &keptLog{log: log, begun: note.Begun, partitions: note.Partitions}
	if was := l.all[note.key()]; was != nil {
		now.former = slices.Concat(was.former, []string{was.log})
	}
	l.all[note.key()] = now
	return nil
}

// forget removes the former logs of a partition whose hits Kafka has.
func (l *Logs) forget(ctx context.Context, key logKey) {
	for _, log := range l.former(key) {
		_, outstanding, err := l.journal.Standing(ctx, log)
		if err != nil || len(outstanding) > 0 {
			continue
		}
		l.journal.Forget(log)
		l.mu.Lock()
		kept := l.all[key]
		kept.former = slices.DeleteFunc(kept.former, func(other string) bool { return other == log })
		l.mu.Unlock()
	}
}

func (l *Logs) former(key logKey) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept := l.all[key]; kept != nil {
		return slices.Clone(kept.former)
	}
	return nil
}

// longestName is how much of a source's name is in the names of its logs, in bytes.
const longestName = 100

// logName names a log in the journal and in the batches. It has the id of the topic and nothing of the collector. So
// aggregators notice a second collector that reads the same partition, and count no record twice. again is for a log that
// was cut off: its offsets come a second time.
func logName(key logKey, id topic.Identity, again bool) string {
	cluster, _, _ := strings.Cut(string(id), "/")
	incarnation := string(id[strings.LastIndexByte(string(id), '/')+1:])
	switch {
	case incarnation == "": // the brokers know no ids
		incarnation = journal.NewID()
	case again:
		incarnation += "-" + journal.NewID()
	}
	return fmt.Sprintf("%s/%s/%s/%s", key.topicPartition, cluster, incarnation, key.source[max(0, len(key.source)-longestName):])
}
