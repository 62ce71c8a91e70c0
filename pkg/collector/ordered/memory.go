package ordered

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
)

// A Remembering log keeps more than a place.
type Remembering interface {
	// Remember gives the log its memory. It is called after Extent and before the first Read.
	Remember(m *Memory)
}

// A Memory is what a log keeps in the journal besides its place: values by number. They are for the Log alone, and as
// long as it is the same log. The zero Memory is for a log that is read once: it keeps nothing, and has sent all.
type Memory struct {
	kept *Kept
	key  logKey
	name string
}

// A memoryNote is what the journal has of a value.
type memoryNote struct {
	Source string `json:"source"`
	Log    string `json:"log"`
	Of     string `json:"of"` // the name of the log in the journal
	Number int    `json:"number"`
	Value  []byte `json:"value"`
}

// memoryMark begins these notes.
var memoryMark = []byte{0xff, 0xff, 0xff, 0xff, 0x0d}

func readMemoryNote(b []byte) (n memoryNote, ok bool) {
	text, is := bytes.CutPrefix(b, memoryMark)
	return n, is && json.Unmarshal(text, &n) == nil
}

func (m *Memory) nameOf(number int) string { return m.name + "/" + strconv.Itoa(number) }

// Values are the values that are kept.
func (m *Memory) Values() map[int][]byte {
	if m.kept == nil {
		return map[int][]byte{}
	}
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	return maps.Clone(m.kept.values[m.name])
}

// Keep keeps a value. It returns when the journal's file has it.
func (m *Memory) Keep(ctx context.Context, number int, value []byte) error {
	if m.kept == nil {
		return nil
	}
	text, _ := json.Marshal(memoryNote{m.key.source, m.key.log, m.name, number, value}) // it is made of numbers and texts
	name := m.nameOf(number)
	m.kept.journal.Set(journal.Log{Source: name, Reached: pace.NoTime, Note: slices.Concat(memoryMark, text)})
	if _, _, err := m.kept.journal.Standing(ctx, name); err != nil {
		return err
	}
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	m.kept.setValue(m.name, number, value)
	return nil
}

func (k *Kept) setValue(name string, number int, value []byte) {
	if k.values[name] == nil {
		k.values[name] = map[int][]byte{}
	}
	k.values[name][number] = value
}

// Forget removes a value. A crash may bring it back.
func (m *Memory) Forget(number int) {
	if m.kept == nil {
		return
	}
	m.kept.journal.Forget(m.nameOf(number))
	m.kept.mu.Lock()
	defer m.kept.mu.Unlock()
	delete(m.kept.values[m.name], number)
}

// forgetAll removes all values.
func (m *Memory) forgetAll() {
	for number := range m.Values() {
		m.Forget(number)
	}
}

// Sent is the position up to which the journal has all entries, and Kafka their hits.
func (m *Memory) Sent(ctx context.Context) (int64, error) {
	if m.kept == nil {
		return math.MaxInt64, nil
	}
	log, outstanding, err := m.kept.journal.Standing(ctx, m.name)
	switch {
	case err != nil || log == nil:
		return 0, err
	case len(outstanding) > 0:
		return outstanding[0].From, nil
	}
	return log.Position, nil
}
