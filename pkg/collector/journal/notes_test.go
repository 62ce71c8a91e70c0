package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/topic"
)

// memoryNotes stand in for a log of hits that has notes. They survive a crash.
type memoryNotes struct {
	values  map[string][]byte
	records int
	fault   error
	mu      sync.Mutex
	broken  error // why nothing can be synced
}

func (m *memoryNotes) Notes(_ context.Context, prefix []byte) (all []topic.Note, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.values)) {
		if strings.HasPrefix(key, string(prefix)) {
			all = append(all, topic.Note{Key: []byte(key), Value: m.values[key]})
		}
	}
	return all, m.fault
}

func (m *memoryNotes) Together(_ context.Context, messages []topic.Message, notes []topic.Note, _ bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records += len(messages)
	for _, n := range notes {
		if n.Value == nil {
			delete(m.values, string(n.Key))
		} else {
			m.values[string(n.Key)] = n.Value
		}
	}
	return nil
}

func (m *memoryNotes) Sync(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.broken
}

func (m *memoryNotes) setBroken(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

func openWith(t *testing.T, folder string, notes Notes) (*Journal, error) {
	t.Helper()
	return Open(folder, Options{Logger: slog.New(slog.DiscardHandler), Outstanding: prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"}), Notes: notes})
}

func mustOpen(t *testing.T, folder string, notes Notes) *Journal {
	t.Helper()
	j, err := openWith(t, folder, notes)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (j *Journal) logOf(source string) *Log {
	for _, log := range j.Logs() {
		if log.Source == source {
			return &log
		}
	}
	return nil
}

// A process with notes is killed anywhere: the file may be from any moment since the start, the notes are those that
// were written. At the next start each log goes on behind its last cut that was sent, and no cut is sent again.
func TestNotesGoOnWhereTheFileIsLate(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		folder, notes := t.TempDir(), &memoryNotes{values: map[string][]byte{}}
		path := filepath.Join(folder, "journal")
		j := mustOpen(t, folder, notes)
		files := [][]byte{read(t, path)}
		sent, begun := map[string]int64{}, map[string]int64{}
		var flying []*Cut
		for range random.IntN(30) {
			source := fmt.Sprintf("log/%d", random.IntN(3))
			switch random.IntN(5) {
			case 0: // the file is written
				j.settle()
				files = append(files, read(t, path))
			case 1, 2:
				c := &Cut{Source: source, From: begun[source], To: begun[source] + 1 + random.Int64N(50), Note: []byte("note"), Batches: []Batch{{0, 1, []byte("hits")}}}
				begun[source] = c.To
				noted := false
				if j.Note(c, func() { noted = true }); !noted {
					t.Fatal("a cut waits for the file")
				}
				flying = append(flying, c)
			case 3:
				if len(flying) > 0 {
					c := flying[0]
					if err := j.Land(t.Context(), c, make([]topic.Message, 1)); err != nil {
						t.Fatal(err)
					}
					sent[c.Source] = c.To
					if random.IntN(2) == 0 {
						flying = flying[1:]
						j.Done(c.Source, c.To)
					}
				}
			}
			if n, _ := j.Status(); n != len(flying) {
				t.Fatalf("%d cuts are outstanding, want %d", n, len(flying))
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		files = append(files, read(t, path))

		if err := os.WriteFile(path, files[random.IntN(len(files))], 0o600); err != nil {
			t.Fatal(err)
		}
		again := mustOpen(t, folder, notes)
		for source, to := range sent {
			if log := again.logOf(source); log == nil || log.Position != to || string(log.Note) != "note" {
				t.Fatalf("%s goes on from %+v, want %d", source, log, to)
			}
		}
		if left := again.Recovered(); len(left) > 0 {
			t.Fatalf("%d cuts are sent again", len(left))
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A log of hits that is not synced may lose its end, so the file gets no later state before it is.
func TestTheFileIsNotAheadOfTheHits(t *testing.T) {
	folder, notes := t.TempDir(), &memoryNotes{values: map[string][]byte{}}
	j := mustOpen(t, folder, notes)
	before := read(t, filepath.Join(folder, "journal"))
	notes.setBroken(errors.New("the disk is full"))
	c := &Cut{Source: "log", To: 10, Batches: []Batch{{0, 1, []byte("hits")}}}
	j.Note(c, func() {})
	if err := j.Land(t.Context(), c, make([]topic.Message, 1)); err != nil {
		t.Fatal(err)
	}
	j.Done("log", 10)

	impatient, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := j.Standing(impatient, "log"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the journal has answered: %v", err)
	}
	if !bytes.Equal(read(t, filepath.Join(folder, "journal")), before) {
		t.Error("the file was written")
	}

	notes.setBroken(nil)
	if log, _, err := j.Standing(t.Context(), "log"); err != nil || log == nil || log.Position != 10 {
		t.Errorf("the log stands at %+v, %v", log, err)
	}
	if bytes.Equal(read(t, filepath.Join(folder, "journal")), before) {
		t.Error("the file was not written")
	}
	closed(t, j)
}

// settle has the goroutine write what is queued.
func (j *Journal) settle() {
	if _, _, err := j.Standing(context.Background(), "none"); err != nil {
		panic(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A journal that was written with Kafka, where cuts are in the file, goes on with notes, and the other way round. An
// earlier note does not put the file back.
func TestNotesAndFilesFollowEachOther(t *testing.T) {
	folder, notes := t.TempDir(), &memoryNotes{values: map[string][]byte{}}
	batches := []Batch{{0, 1, []byte("hits")}}
	cut := func(j *Journal, from, to int64) *Cut {
		c := &Cut{Source: "log", From: from, To: to, Note: []byte("note"), Batches: batches}
		done := make(chan struct{})
		j.Note(c, func() { close(done) })
		<-done
		return c
	}

	j := mustOpen(t, folder, notes)
	if err := j.Land(t.Context(), cut(j, 0, 10), nil); err != nil {
		t.Fatal(err)
	}
	j.Done("log", 10)
	closed(t, j)

	j = mustOpen(t, folder, nil) // with Kafka
	if log := j.logOf("log"); log == nil || log.Position != 10 {
		t.Fatalf("with Kafka the log goes on from %+v, want 10", log)
	}
	cut(j, 10, 20)
	closed(t, j)

	j = mustOpen(t, folder, notes)
	log, outstanding, err := j.Standing(t.Context(), "log")
	if err != nil || log.Position != 20 || len(outstanding) != 1 || len(j.Recovered()) != 1 {
		t.Fatalf("the log goes on from %+v with %d cuts, %v; want 20 with one", log, len(outstanding), err)
	}
	if err := j.Land(t.Context(), outstanding[0], nil); err != nil {
		t.Fatal(err)
	}
	j.Done("log", 20)
	next := cut(j, 20, 30)
	if log, outstanding, err = j.Standing(t.Context(), "log"); err != nil || log.Position != 30 || len(outstanding) != 1 || outstanding[0] != next {
		t.Fatalf("the log is at %+v with %d cuts, %v; want 30 with the one that is being sent", log, len(outstanding), err)
	}
	closed(t, j)

	j = mustOpen(t, folder, notes) // that cut was never sent: it is made again from its records
	if log := j.logOf("log"); log == nil || log.Position != 20 || len(j.Recovered()) != 0 {
		t.Errorf("the log goes on from %+v, want 20", log)
	}
	closed(t, j)
}

func closed(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// Notes of a collector whose journal is gone are removed, since their files are read again; notes that cannot be read
// or had end the start.
func TestNotesOfOthers(t *testing.T) {
	folder, notes := t.TempDir(), &memoryNotes{values: map[string][]byte{"collector/another/log": []byte("x"), "other": []byte("y")}}
	j := mustOpen(t, folder, notes)
	if len(notes.values) != 1 || !bytes.Equal(notes.values["other"], []byte("y")) {
		t.Errorf("notes that stay: %q", notes.values)
	}
	if err := j.Land(t.Context(), &Cut{Source: "log", To: 5}, nil); err != nil {
		t.Fatal(err)
	}
	j.Forget("log")
	if len(notes.values) != 1 {
		t.Errorf("the note of a forgotten log stays: %q", notes.values)
	}
	id := j.ID
	closed(t, j)

	notes.values["collector/"+id+"/log"] = []byte("damaged")
	if _, err := openWith(t, folder, notes); err == nil {
		t.Error("a damaged note is not an error")
	}
	notes.fault = errors.New("broken")
	if _, err := openWith(t, folder, notes); !errors.Is(err, notes.fault) {
		t.Errorf("notes that cannot be had: %v", err)
	}
}
