package journal

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/seen"
)

func openSeen(t *testing.T, folder string, notes Notes, most int) *Journal {
	t.Helper()
	o := Options{Logger: slog.New(slog.DiscardHandler), Outstanding: prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"}), Seen: map[string]int{"shop": most}}
	if notes != nil {
		o.Notes = notes
	}
	j, err := Open(folder, o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// seenCuts are cuts of two logs, each with values that no other has.
func seenCuts(random *rand.Rand, n int) (cuts []*Cut) {
	begun := map[string]int64{}
	for i := range n {
		source := fmt.Sprintf("log/%d", random.IntN(2))
		c := &Cut{Source: source, From: begun[source], To: begun[source] + 10, SeenBy: "shop", Batches: []Batch{{0, 1, []byte("hits")}}}
		for k := range random.IntN(3) {
			c.Seen = append(c.Seen, seen.Value{Hash: uint64(i*10 + k + 1), At: 1772524800000 + random.Int64N(1000)})
		}
		begun[source] = c.To
		cuts = append(cuts, c)
	}
	return cuts
}

// valuesUpTo are the values of the cuts that a journal has.
func valuesUpTo(cuts []*Cut, position func(source string) int64) (all []seen.Value) {
	for _, c := range cuts {
		if c.To <= position(c.Source) {
			all = append(all, c.Seen...)
		}
	}
	return all
}

func (s *state) position(source string) int64 {
	if log := s.logs[source]; log != nil {
		return log.Position
	}
	return 0
}

func (s *state) values(by string) []seen.Value {
	if m := s.memories[by]; m != nil {
		return slices.Concat(m.pages...)
	}
	return nil
}

// A journal that is cut off at any byte has the values of exactly the cuts that it has.
func TestValuesAreThoseOfTheCuts(t *testing.T) {
	cuts := seenCuts(rand.New(rand.NewPCG(7, 7)), 30)
	data := header{"id", 1}.bytes(journalVersion)
	begins := len(data)
	for _, c := range cuts {
		if len(c.Seen) > 0 {
			data = c.seenOf().append(data)
		}
		data = entry{kind: entryCut, cut: c}.append(data)
	}
	for n := begins; n <= len(data); n++ {
		read := newState()
		if _, _, err := read.read(bytes.Clone(data[:n])); err != nil {
			t.Fatal(err)
		}
		if got, want := read.values("shop"), valuesUpTo(cuts, read.position); !slices.Equal(got, want) {
			t.Fatalf("of %d bytes it has the values %v, want %v", n, got, want)
		}
	}
}

// A process is killed anywhere, with the file alone and with notes. The next one has no values of requests that it reads again.
func TestValuesSurviveKills(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		folder := t.TempDir()
		path := filepath.Join(folder, "journal")
		var notes *memoryNotes
		var j *Journal
		if seed%2 == 0 {
			notes = &memoryNotes{values: map[string][]byte{}}
			j = openSeen(t, folder, notes, 1000)
		} else {
			j = openSeen(t, folder, nil, 1000)
		}

		cuts := seenCuts(random, 40)
		for _, c := range cuts[:random.IntN(len(cuts))] {
			j.Note(c, func() {})
			if notes != nil {
				if err := j.Land(t.Context(), c, nil); err != nil {
					t.Fatal(err)
				}
			}
			if random.IntN(3) > 0 {
				j.Done(c.Source, c.To)
			}
			if random.IntN(5) == 0 {
				j.settle()
			}
		}
		file := read(t, path)
		var kept map[string][]byte
		if notes != nil {
			notes.mu.Lock()
			file, kept = read(t, path), maps.Clone(notes.values) // no note is removed meanwhile
			notes.mu.Unlock()
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		var again *Journal
		if notes != nil {
			notes.values = kept
			again = openSeen(t, folder, notes, 1000)
		} else {
			again = openSeen(t, folder, nil, 1000)
		}
		got, want := hashes(again.Seen("shop")), hashes(valuesUpTo(cuts, again.state.position))
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: it has the values %v, want %v", seed, got, want)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if notes != nil && len(notes.values) > 2 {
			t.Errorf("seed %d: notes are left: %d", seed, len(notes.values))
		}
	}
}

// hashes are the different hashes of values, sorted: notes and the file may have a value both.
func hashes(values []seen.Value) (all []uint64) {
	for _, v := range values {
		all = append(all, v.Hash)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// The last values are kept, and a page or two more; those of a source that remembers none any more are dropped, and an earlier
// program can then read the journal.
func TestOldValuesAreDropped(t *testing.T) {
	folder := t.TempDir()
	j := openSeen(t, folder, nil, 5000)
	position := int64(0)
	for range 40 {
		c := &Cut{Source: "log", From: position, To: position + 1, SeenBy: "shop"}
		for range 1000 {
			c.Seen = append(c.Seen, seen.Value{Hash: uint64(position*1000) + uint64(len(c.Seen))})
		}
		position++
		j.Note(c, func() {})
		j.Done(c.Source, c.To)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	j = openSeen(t, folder, nil, 5000)
	values := j.Seen("shop")
	if len(values) < 5000 || len(values) > 5000+2*pageValues || values[len(values)-1].Hash != 39_999 {
		t.Errorf("%d values, the last is %+v", len(values), values[len(values)-1])
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if version := versionOf(t, folder); version != journalVersion {
		t.Errorf("with values it has version %d", version)
	}

	j = mustOpen(t, folder, nil)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if version := versionOf(t, folder); version != plainVersion {
		t.Errorf("without values it has version %d", version)
	}
	if len(read(t, filepath.Join(folder, "journal"))) > 1000 {
		t.Error("the values are still there")
	}
}

func versionOf(t *testing.T, folder string) byte {
	t.Helper()
	_, body, _, ok := unframe(read(t, filepath.Join(folder, "journal")))
	if !ok {
		t.Fatal("there is no header")
	}
	return body[0]
}
