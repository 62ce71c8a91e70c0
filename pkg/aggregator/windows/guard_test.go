package windows

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"

	"weir/pkg/hit"
)

// A slow count of the same: all blocks so far.
type guardTwin struct{ begun map[int64]int64 }

func (w *guardTwin) begins(most, from int64) bool {
	w.begun[from/minute]++
	return w.begun[from/minute] > most || w.begun[from/minute-1] > most
}

// With random blocks, a guard that is stored at a random place and reads hits again says what it said before of those
// before that place, and what it would have said without that of all others.
func TestAGuardReadsHitsAgain(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		type block struct {
			from int64
			at   Place
			want bool
		}
		var blocks []block
		twin := guardTwin{map[int64]int64{}}
		const most = 5
		for n := range int64(300) {
			b := block{from: 1_700_000_000_000 + n*4000 - random.Int64N(90_000), at: Place{Generation: 1, Offset: n / 4, Item: n % 4}}
			b.want = twin.begins(most, b.from)
			blocks = append(blocks, b)
		}

		g := &Guard{}
		stored, checkpoint := []byte(nil), int64(0)
		for i := 0; i < len(blocks); i++ {
			b := blocks[i]
			if b.at.Item == 0 { // a batch begins
				if b.at.Offset > 0 {
					g.Counted(1, b.at.Offset-1)
				}
				if changes := g.appendChange(nil, -1); random.IntN(3) == 0 && len(changes) > 0 {
					stored, checkpoint = changes[0].Value, max(checkpoint, b.at.Offset-random.Int64N(10))
				}
				if random.IntN(20) == 0 {
					var err error
					if g, err = ReadGuard(stored); err != nil {
						t.Fatal(err)
					}
					for i = 0; blocks[i].at.Offset < checkpoint; i++ {
					}
					b = blocks[i]
				}
			}
			if random.IntN(4) == 0 && b.at.before(g.recorded) {
				continue // its window has it
			}
			if got := g.Begins("r", most, b.from, b.at); got != b.want {
				t.Fatalf("seed %d, block %d: %v, want %v", seed, i, got, b.want)
			}
		}
	}
}

// Hits that waited for the store are counted later than others. When they are read again, they are guarded if they were.
func TestAGuardOfHitsThatWaited(t *testing.T) {
	g, from := &Guard{}, int64(1_700_000_000_000)
	for n := range int64(3) {
		if got := g.Begins("r", 2, from, Place{1, 10, n}); got != (n == 2) {
			t.Errorf("block %d: %v", n, got)
		}
	}
	g.Counted(1, 10)
	if !g.Begins("r", 2, from, Place{1, 5, Waited}) {
		t.Error("it is not guarded")
	}
	again, err := ReadGuard(g.bytes(-1))
	if err != nil || !again.Begins("r", 2, from, Place{1, 5, 0}) || again.Begins("r", 2, from, Place{1, 4, 9}) {
		t.Errorf("%v", err)
	}

	// Of hits that still wait nothing is known.
	waiting, err := ReadGuard(g.bytes(5))
	if err != nil || waiting.recorded != (Place{1, 5, 0}) {
		t.Errorf("%+v %v", waiting.recorded, err)
	}
}

func TestAGuardForgetsMinutes(t *testing.T) {
	g := &Guard{}
	for n := range int64(10 * guardMinutes) {
		for range 3 {
			g.Begins("r", 1, n*minute, Place{1, n, 0})
		}
	}
	if r := g.rules["r"]; len(r.minutes) > guardMinutes || len(r.excess) > guardTrips {
		t.Errorf("%d minutes, %d with an excess", len(r.minutes), len(r.excess))
	}
	if again, err := ReadGuard(g.bytes(-1)); err != nil || len(again.rules["r"].excess) != guardTrips {
		t.Errorf("%v", err)
	}
}

func TestBytesOfAGuard(t *testing.T) {
	g := &Guard{}
	if changes := g.appendChange(nil, -1); changes != nil {
		t.Error("without guarded rules the store learns something")
	}
	g.Begins("per-ip", 1, 60_000, Place{1, 2, 0})
	g.Begins("per-ip", 1, 60_000, Place{1, 2, 1})
	g.Counted(1, 2)
	value := g.bytes(-1)
	const want = "01010301067065722d69700101050101010201"
	if got := hex.EncodeToString(value[:len(value)-8]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := ReadGuard(nil); err != nil {
		t.Error(err)
	}
	for cut := range value[1:] {
		if _, err := ReadGuard(value[:1+cut]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	newer := append([]byte{2}, value[1:len(value)-8]...)
	if _, err := ReadGuard(binary.LittleEndian.AppendUint64(newer, xxhash.Sum64(newer))); !errors.Is(err, ErrNewer) {
		t.Errorf("%v", err)
	}
}

// Records of windows without a guarded verdict have the bytes that they always had. One with such a verdict is of a later
// version for programs that do not know guards: they stop, and do not enforce it.
func TestRecordsWithAGuardedVerdict(t *testing.T) {
	v := Verdict{From: 1000, Until: 601_000, Decided: 1002, Generation: 1, Offset: 7, Count: 11, Level: 1, Limit: "10/min", Listed: true}
	plain := Record{Generation: 1, Offset: 9, Verdict: &v, State: []byte("state")}
	const want = "01110109d00fc0cf240401070b010631302f6d696e7374617465"
	old := plain.Append(nil)
	if got := hex.EncodeToString(old); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, err := ReadRecord(old); err != nil || *got.Verdict != v {
		t.Errorf("%+v %v", got, err)
	}

	for _, moved := range []bool{false, true} {
		guarded := v
		guarded.Guarded = true
		if moved {
			guarded.First, guarded.FirstLevel = 900, 2
		}
		record := Record{Generation: 1, Offset: 9, Verdict: &guarded, State: []byte("state")}
		value := record.Append(nil)
		if !LaterVersion(value, movedVersion) || !hit.Sealed(value) {
			t.Errorf("an earlier program does not take it for a later version: %x", value)
		}
		got, err := ReadRecord(value)
		if err != nil || *got.Verdict != guarded || string(got.State) != "state" || got.Offset != 9 {
			t.Errorf("%+v %v, want %+v", got, err, record)
		}
		for cut := range value {
			if _, err := ReadRecord(value[:cut]); !errors.Is(err, ErrDamaged) {
				t.Errorf("cut at %d: %v", cut, err)
			}
		}
		value[1] &^= isGuarded
		if _, err := ReadRecord(value); !errors.Is(err, ErrDamaged) {
			t.Errorf("without the flag: %v", err)
		}
	}
}
