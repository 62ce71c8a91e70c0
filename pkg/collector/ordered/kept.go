package ordered

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
	"weir/pkg/request"
)

// Kept are the logs of all sources that the collector's journal has.
type Kept struct {
	journal *journal.Journal
	cuts    *pipeline.KeptCuts

	mu     sync.Mutex
	all    map[logKey]*keptLog
	values map[string]map[int][]byte // of memories, by the names of their logs
}

// A logKey is a log that a source reads.
type logKey struct{ source, log string }

// A keptLog is what the journal has of a log.
type keptLog struct {
	name     string   // the present one, as the journal and the batches name it
	identity string   // of that
	former   []string // forgotten once Kafka has all of their hits
	begun    int64    // when the present one began, Unix ms
}

// A note is what the journal has of a log besides its position.
type note struct {
	Version  int    `json:"v"`
	Source   string `json:"source"`
	Log      string `json:"log"`
	Identity string `json:"identity,omitempty"`
	ID       string `json:"id,omitempty"` // of the place
	Begun    int64  `json:"begun"`        // when the log was begun, Unix ms

	// The form that was found out, where it is not configured.
	Envelope string `json:"envelope,omitempty"`
	Format   string `json:"format,omitempty"`
}

const noteVersion = 1

// noteMark begins these notes. As the length of a path it is too long for any note of a file, and a topic's is another.
var noteMark = []byte{0xff, 0xff, 0xff, 0xff, 0x0e}

func (n note) bytes() []byte {
	n.Version = noteVersion
	text, _ := json.Marshal(n) // it is made of numbers and texts
	return slices.Concat(noteMark, text)
}

func readNote(b []byte) (n note, ok bool) {
	text, is := bytes.CutPrefix(b, noteMark)
	return n, is && json.Unmarshal(text, &n) == nil && n.Version == noteVersion
}

func (n *note) key() logKey { return logKey{n.Source, n.Log} }

// choice is the form that was found out; nil when none was.
func (n *note) choice() *request.Choice {
	if n.Format == "" {
		return nil
	}
	return &request.Choice{Envelope: n.Envelope, Format: n.Format}
}

// NewKept reads what a journal has of logs that servers keep.
func NewKept(j *journal.Journal, cuts *pipeline.KeptCuts) *Kept {
	k := &Kept{journal: j, cuts: cuts, all: map[logKey]*keptLog{}, values: map[string]map[int][]byte{}}
	for _, log := range j.Logs() {
		if value, ok := readMemoryNote(log.Note); ok {
			k.setValue(value.Of, value.Number, value.Value)
			continue
		}
		n, ok := readNote(log.Note)
		if !ok {
			continue
		}
		now := &keptLog{name: log.Source, identity: n.Identity, begun: n.Begun}
		if was := k.all[n.key()]; was != nil {
			if was.begun > now.begun {
				was, now = now, was
			}
			now.former = append(append(now.former, was.former...), was.name)
		}
		k.all[n.key()] = now
	}
	return k
}

// find returns the name of the present log; empty when nothing of it was read.
func (k *Kept) find(key logKey) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kept := k.all[key]; kept != nil {
		return kept.name
	}
	return ""
}

// has reports whether anything of a source was read.
func (k *Kept) has(source string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.all {
		if key.source == source {
			return true
		}
	}
	return false
}

// begin makes a log the present one, and returns when the journal's file has it.
func (k *Kept) begin(ctx context.Context, name string, position int64, n note) error {
	k.journal.Set(journal.Log{Source: name, Position: position, Reached: pace.NoTime, Note: n.bytes()})
	if _, _, err := k.journal.Standing(ctx, name); err != nil {
		return err
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	now := &keptLog{name: name, identity: n.Identity, begun: n.Begun}
	if was := k.all[n.key()]; was != nil && was.name != name {
		now.former = slices.Concat(was.former, []string{was.name})
	}
	k.all[n.key()] = now
	return nil
}

// forget removes the former logs whose hits Kafka has.
func (k *Kept) forget(ctx context.Context, key logKey) {
	for _, name := range k.former(key) {
		_, outstanding, err := k.journal.Standing(ctx, name)
		if err != nil || len(outstanding) > 0 {
			continue
		}
		k.journal.Forget(name)
		(&Memory{k, key, name}).forgetAll()
		k.mu.Lock()
		kept := k.all[key]
		kept.former = slices.DeleteFunc(kept.former, func(other string) bool { return other == name })
		k.mu.Unlock()
	}
}

// gone returns the logs of a source that a list does not have. It has others with the same identity, and one of these was
// read. So the server has not lost them all, and the source is not taken for one that was never read.
func (k *Kept) gone(source string, listed map[string]string) (gone []logKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	read := map[string]bool{}
	for key, kept := range k.all {
		if identity, ok := listed[key.log]; ok && key.source == source && identity == kept.identity {
			read[identity] = true
		}
	}
	for key, kept := range k.all {
		if _, ok := listed[key.log]; !ok && key.source == source && read[kept.identity] {
			gone = append(gone, key)
		}
	}
	return gone
}

// drop removes a log that the server does not have any more, once Kafka has its hits.
func (k *Kept) drop(ctx context.Context, key logKey) {
	k.forget(ctx, key)
	if _, outstanding, err := k.journal.Standing(ctx, k.find(key)); err != nil || len(outstanding) > 0 {
		return
	}
	if name := k.find(key); name != "" && len(k.former(key)) == 0 {
		k.journal.Forget(name)
		(&Memory{k, key, name}).forgetAll()
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.all, key)
	}
}

func (k *Kept) former(key logKey) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kept := k.all[key]; kept != nil {
		return slices.Clone(kept.former)
	}
	return nil
}

// longestName is how much of a name is in the names of logs, in bytes.
const longestName = 100

// nameOf names a log in the journal and in the batches, with the log's identity and nothing of the collector. So
// aggregators notice a second collector that reads the same log, and count no entry twice. again is for a log whose
// positions come a second time.
func nameOf(key logKey, identity string, again bool) string {
	incarnation := cmp.Or(identity, journal.NewID())
	if again && identity != "" {
		incarnation += "-" + journal.NewID()
	}
	return strings.Join([]string{ending(key.log), incarnation, ending(key.source)}, "/")
}

func ending(name string) string { return name[max(0, len(name)-longestName):] }
