package journal

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// randomEntries are some of each kind, of a few logs.
func randomEntries(random *rand.Rand, count int) (entries []entry) {
	to := map[string]int64{}
	for range count {
		source := fmt.Sprintf("access.log/%d", random.IntN(3))
		switch random.IntN(6) {
		case 0:
			entries = append(entries, entry{kind: entryLog, log: Log{source, to[source], math.MinInt64, []byte("note")}})
		case 1:
			entries = append(entries, entry{kind: entryForget, log: Log{Source: source}})
		case 2, 3:
			entries = append(entries, entry{kind: entryDone, log: Log{Source: source, Position: to[source]}})
		default:
			c := &Cut{Source: source, From: to[source], To: to[source] + 1 + random.Int64N(1000), Clock: random.Int64(), Fingerprint: "f", Reached: random.Int64N(10), Note: []byte{1}}
			for range random.IntN(3) {
				c.Batches = append(c.Batches, Batch{random.IntN(16), random.IntN(100), bytes.Repeat([]byte{7}, random.IntN(50))})
			}
			to[source] = c.To
			entries = append(entries, entry{kind: entryCut, cut: c})
		}
	}
	return entries
}

// says is the state in a form that can be compared.
func (s *state) says() string {
	var text strings.Builder
	for n := range 3 {
		source := fmt.Sprintf("access.log/%d", n)
		if log := s.logs[source]; log != nil {
			fmt.Fprintf(&text, "%+v\n", *log)
		}
		for _, c := range s.cuts[source] {
			fmt.Fprintln(&text, c.From, c.To, c.Clock, c.Reached, string(c.Note), c.Batches)
		}
	}
	return text.String()
}

// TestAJournalThatIsCutOffAnywhereKeepsItsEntries cuts a journal at every byte: it keeps the entries before that byte.
func TestAJournalThatIsCutOffAnywhereKeepsItsEntries(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	data := header{"id", 1}.bytes(plainVersion)
	begins := len(data)
	said := map[int64]string{int64(begins): ""}
	twin := newState()
	for _, e := range randomEntries(random, 40) {
		data = e.append(data)
		twin.apply(e)
		said[int64(len(data))] = twin.says()
	}
	for n := begins; n <= len(data); n++ {
		read := newState()
		h, sound, err := read.read(bytes.Clone(data[:n]))
		if err != nil || h == nil || h.collector != "id" {
			t.Fatalf("%d bytes: %v %v", n, h, err)
		}
		want, whole := said[sound]
		if !whole || read.says() != want {
			t.Fatalf("%d bytes: the first %d say\n%swant\n%s", n, sound, read.says(), want)
		}
		if _, next := said[int64(n)]; next && sound != int64(n) {
			t.Fatalf("of %d sound bytes %d were read", n, sound)
		}
	}
}

func TestARewrittenJournalHasTheSameContent(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 100 {
		before, after := newState(), newState()
		for _, e := range randomEntries(random, random.IntN(40)) {
			before.apply(e)
		}
		if _, _, err := after.read(before.append(header{"id", 2}.bytes(plainVersion))); err != nil {
			t.Fatal(err)
		}
		if before.says() != after.says() {
			t.Fatalf("it says\n%swant\n%s", after.says(), before.says())
		}
	}
}

// FuzzJournal reads bytes of any kind.
//
//   - nothing panics;
//   - a state that is read and written again is the same.
func FuzzJournal(f *testing.F) {
	data := header{"id", 1}.bytes(plainVersion)
	f.Add(bytes.Clone(data))
	for _, e := range randomEntries(rand.New(rand.NewPCG(3, 3)), 10) {
		data = e.append(data)
		f.Add(bytes.Clone(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cutEntry(data)
		read, again := newState(), newState()
		h, _, err := read.read(data)
		if err != nil || h == nil {
			return
		}
		if _, _, err := again.read(read.append(h.bytes(plainVersion))); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(read.logs, again.logs) {
			t.Fatal("written anew, the logs are others")
		}
	})
}
