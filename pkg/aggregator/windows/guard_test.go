package windows

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"weir/internal/hyperloglog"
	"weir/pkg/hit"
	"weir/pkg/rule"
)

// A slow count of the same: all blocks so far, and all keys.
type guardTwin struct {
	guard  rule.Guard
	begun  map[int64]int64
	sent   map[int64]map[string]bool
	newly  map[int64]map[string]bool
	beyond map[int64]Beyond
}

func newGuardTwin(guard rule.Guard) *guardTwin {
	return &guardTwin{guard, map[int64]int64{}, map[int64]map[string]bool{}, map[int64]map[string]bool{}, map[int64]Beyond{}}
}

func (w *guardTwin) sees(key string, at int64) { note(w.sent, at/minute, key) }

func note(in map[int64]map[string]bool, number int64, key string) {
	if in[number] == nil {
		in[number] = map[string]bool{}
	}
	in[number][key] = true
}

// begins reports the bound of a block that a guard is beyond for which the number of keys is so many times the true one.
func (w *guardTwin) begins(key string, from int64, times float64) Beyond {
	number := from / minute
	w.begun[number]++
	note(w.newly, number, key)
	if w.guard.MostNew > 0 && w.begun[number] > w.guard.MostNew {
		w.beyond[number] |= MostNew
	}
	keys := times * float64(max(len(w.sent[number]), len(w.sent[number-1])))
	if w.guard.MostShare > 0 && int64(len(w.newly[number])) > w.guard.ShareOf(keys, 1) {
		w.beyond[number] |= MostShare
	}
	for _, bound := range bounds {
		if (w.beyond[number]|w.beyond[number-1])&bound != 0 {
			return bound
		}
	}
	return 0
}

// With random blocks, a guard that is stored at a random place and reads hits again says what it said before of those
// before that place, and what it would have said without that of all others.
func TestAGuardReadsHitsAgain(t *testing.T) {
	seen := map[Beyond]int{}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		type hit struct {
			key    string
			from   int64
			at     Place
			blocks bool
			again  bool
			want   Beyond
		}
		var hits []hit
		guard := []rule.Guard{{MostNew: 5}, {MostShare: 50}, {MostNew: 25, MostShare: 50}}[seed%3]
		whole, newly := &Guard{seed: seed}, map[string]bool{}
		for n := range int64(300) {
			h := hit{key: fmt.Sprint(random.IntN(60)), from: 1_700_000_000_000 + n*2000 - random.Int64N(90_000), at: Place{Generation: 1, Offset: n / 4, Item: n % 4}}
			h.blocks = guard.MostShare == 0 || random.IntN(3) > 0
			hour := fmt.Sprint(h.key, h.from/minute)
			h.again, newly[hour] = newly[hour], newly[hour] || h.blocks
			if guard.MostShare > 0 {
				whole.Sees("r", h.key, h.from)
			}
			if h.blocks {
				h.want = whole.Begins("r", guard, 1, Beginning{h.from, h.at, h.again})
				seen[h.want]++
			}
			hits = append(hits, h)
		}

		g := &Guard{seed: seed}
		stored, checkpoint := []byte(nil), int64(0)
		for i := 0; i < len(hits); i++ {
			h := hits[i]
			if h.at.Item == 0 { // a batch begins
				if h.at.Offset > 0 {
					g.Counted(1, h.at.Offset-1)
				}
				if changes := g.appendChange(nil, -1); random.IntN(3) == 0 && len(changes) > 0 {
					stored, checkpoint = changes[0].Value, max(checkpoint, h.at.Offset-random.Int64N(10))
				}
				if random.IntN(20) == 0 {
					var err error
					if g, err = ReadGuard(stored, seed); err != nil {
						t.Fatal(err)
					}
					for i = 0; hits[i].at.Offset < checkpoint; i++ {
					}
					h = hits[i]
				}
			}
			if random.IntN(4) == 0 && h.at.before(g.recorded) {
				continue // its window has it
			}
			if guard.MostShare > 0 {
				g.Sees("r", h.key, h.from)
			}
			if !h.blocks {
				continue
			}
			if got := g.Begins("r", guard, 1, Beginning{h.from, h.at, h.again}); got != h.want {
				t.Fatalf("seed %d, hit %d: %v, want %v", seed, i, got, h.want)
			}
		}
	}
	if seen[0] == 0 || seen[MostNew] == 0 || seen[MostShare] == 0 {
		t.Errorf("%v", seen)
	}
}

// Without an error of the sketch, a share is exceeded with the exact twin's counts. With it, never earlier than for the
// true number of keys, and never later than for a quarter more.
func TestAShareOfKeys(t *testing.T) {
	seen := 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 2))
		guard := rule.Guard{MostShare: []float64{0.5, 2, 10}[seed%3]}
		users := 1 + random.IntN(20_000)
		bad := random.Float64() * 3 * guard.MostShare / 100
		g, early, late := &Guard{}, newGuardTwin(guard), newGuardTwin(guard)
		blocked := map[string]bool{}
		for n := range int64(30_000) {
			user := random.IntN(users)
			key, from := fmt.Sprint("user-", user), 1_700_000_000_000+n*3*minute/30_000
			g.Sees("r", key, from)
			early.sees(key, from)
			late.sees(key, from)
			if float64(user) >= bad*float64(users) || blocked[key] {
				continue
			}
			blocked[key] = true
			got := g.Begins("r", guard, 1, Beginning{From: from, At: Place{1, n, 0}})
			if may, must := early.begins(key, from, 1), late.begins(key, from, 1.25); got != 0 && may == 0 || got == 0 && must != 0 {
				t.Fatalf("seed %d: block %d of %d users is %v; exactly %v, late %v", seed, n, users, got, may, must)
			}
			if got != 0 {
				seen++
			}
		}
	}
	if seen == 0 {
		t.Error("no share was exceeded")
	}
}

// A site of ten users has no share, nor does one block in the first second of a minute.
func TestAShareOfFewKeys(t *testing.T) {
	g, guard := &Guard{}, rule.Guard{MostShare: 2}
	for n := range int64(rule.LeastShared + 1) {
		key := fmt.Sprint(n)
		g.Sees("r", key, 0)
		if got := g.Begins("r", guard, 1, Beginning{At: Place{1, n, 0}}); (got == MostShare) != (n == rule.LeastShared) {
			t.Errorf("block %d: %v", n, got)
		}
	}

	// A key that is blocked again within the minute counts once.
	g = &Guard{}
	for n := range int64(100) {
		g.Sees("r", "one", 0)
		if got := g.Begins("r", guard, 1, Beginning{At: Place{1, n, 0}, Again: n > 0}); got != 0 {
			t.Errorf("block %d: %v", n, got)
		}
	}

	// As many keys as in the minute before are expected when a minute begins.
	g = &Guard{}
	for n := range 10_000 {
		g.Sees("r", fmt.Sprint(n), 0)
	}
	for n := range int64(199) {
		key := fmt.Sprint(n)
		g.Sees("r", key, minute)
		if got := g.Begins("r", guard, 1, Beginning{From: minute, At: Place{1, n, 0}}); got != 0 {
			t.Fatalf("block %d: %v", n, got)
		}
	}
}

// Minutes come in any order: the newest are kept, and keys of an older one change nothing.
func TestAGuardKeepsTheNewestKeys(t *testing.T) {
	g := &Guard{}
	for _, number := range []int64{10, 7, 9, 8, 12, 6, 11, 9, 30} {
		g.Sees("r", "key", number*minute)
	}
	var kept []int64
	for _, m := range g.rules["r"].keys {
		kept = append(kept, m.number)
		if n := m.sketch.keys(); n < 0.9 || n > 1.1 {
			t.Errorf("minute %d has %v keys", m.number, n)
		}
	}
	if want := []int64{10, 11, 12, 30}; !slices.Equal(kept, want) {
		t.Errorf("%v, want %v", kept, want)
	}
	if _, ok := g.rules["r"].keysOf(9); ok {
		t.Error("an old minute has a share")
	}
	if allocated := testing.AllocsPerRun(100, func() { g.Sees("r", "another key", 30*minute) }); allocated != 0 {
		t.Errorf("%v allocations a hit", allocated)
	}

	// Without the bound there are none.
	g.Begins("r", rule.Guard{MostNew: 1}, 1, Beginning{From: 30 * minute, At: Place{1, 1, 0}})
	if g.rules["r"].keys != nil {
		t.Error("a rule that bounds no share keeps keys")
	}
}

// Estimates have the error that the documents state.
func TestTheErrorOfASketch(t *testing.T) {
	for _, keys := range []int{1, 20, 200, 1000, 3000, 10_000, 100_000} {
		squares, mean := 0.0, 0.0
		const times = 100
		for n := range times {
			s := &sketch{}
			for i := range keys {
				s.add(fmt.Sprint(n, " ", i), uint64(n)<<40)
			}
			off := s.keys()/float64(keys) - 1
			squares += off * off / times
			mean += off / times
		}
		if standard := math.Sqrt(squares); standard > 0.04 || math.Abs(mean) > 0.013 {
			t.Errorf("%d keys: the standard error is %.1f %%, the mean %.1f %%", keys, standard*100, mean*100)
		}
	}
	full := &sketch{}
	for i := range full {
		full[i] = hyperloglog.Most(sketchRegisters)
	}
	if n := full.keys(); math.IsInf(n, 0) || math.IsNaN(n) || (rule.Guard{MostShare: 99}).ShareOf(n, 1<<20) < rule.LeastShared {
		t.Errorf("%v keys", n)
	}
}

// Hits that waited for the store are counted later than others. When they are read again, they are guarded if they were.
func TestAGuardOfHitsThatWaited(t *testing.T) {
	two := rule.Guard{MostNew: 2}
	g, from := &Guard{}, int64(1_700_000_000_000)
	for n := range int64(3) {
		if got := g.Begins("r", two, 1, Beginning{From: from, At: Place{1, 10, n}}); (got == MostNew) != (n == 2) {
			t.Errorf("block %d: %v", n, got)
		}
	}
	g.Counted(1, 10)
	if g.Begins("r", two, 1, Beginning{From: from, At: Place{1, 5, Waited}}) == 0 {
		t.Error("it is not guarded")
	}
	again, err := ReadGuard(g.bytes(-1), 9)
	if err != nil || again.Begins("r", two, 1, Beginning{From: from, At: Place{1, 5, 0}}) == 0 || again.Begins("r", two, 1, Beginning{From: from, At: Place{1, 4, 9}}) != 0 {
		t.Errorf("%v", err)
	}

	// Of hits that still wait nothing is known.
	waiting, err := ReadGuard(g.bytes(5), 9)
	if err != nil || waiting.recorded != (Place{1, 5, 0}) {
		t.Errorf("%+v %v", waiting.recorded, err)
	}
}

func TestAGuardForgetsMinutes(t *testing.T) {
	g := &Guard{}
	for n := range int64(10 * guardMinutes) {
		for range 3 {
			g.Begins("r", rule.Guard{MostNew: 1}, 1, Beginning{From: n * minute, At: Place{1, n, 0}})
		}
	}
	if r := g.rules["r"]; len(r.minutes) > guardMinutes || len(r.excess) > guardTrips {
		t.Errorf("%d minutes, %d with an excess", len(r.minutes), len(r.excess))
	}
	if again, err := ReadGuard(g.bytes(-1), 9); err != nil || len(again.rules["r"].excess) != guardTrips {
		t.Errorf("%v", err)
	}
}

func TestBytesOfAGuard(t *testing.T) {
	g := &Guard{}
	if changes := g.appendChange(nil, -1); changes != nil {
		t.Error("without guarded rules the store learns something")
	}
	guard := rule.Guard{MostNew: 1}
	g.Begins("per-ip", guard, 1, Beginning{From: 60_000, At: Place{1, 2, 0}})
	g.Begins("per-ip", guard, 1, Beginning{From: 60_000, At: Place{1, 2, 1}})
	g.Counted(1, 2)
	value := g.bytes(-1)
	const want = "01010301067065722d69700101050101010201"
	if got := hex.EncodeToString(value[:len(value)-8]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := ReadGuard(nil, 9); err != nil {
		t.Error(err)
	}
	for cut := range value[1:] {
		if _, err := ReadGuard(value[:1+cut], 9); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	newer := append([]byte{4}, value[1:len(value)-8]...)
	if _, err := ReadGuard(sealed(newer), 9); !errors.Is(err, ErrNewer) {
		t.Errorf("%v", err)
	}

	// With keys they are of version 3, which has seeds.
	guard.MostShare = 1
	g.seed = 9
	g.Sees("per-ip", "203.0.113.7", 60_000)
	g.Begins("per-ip", guard, 1, Beginning{From: 60_000, At: Place{1, 2, 2}})
	g.rules["per-ip"].exceed(g.rules["per-ip"].minute(1), MostShare, Place{1, 2, 2})
	value = g.bytes(-1)
	const seeded = "03" + "010301067065722d6970010103010302010102010101010202020101" + "0900000000000000" + "00cd07" + "02" + "0030"
	if got := hex.EncodeToString(value[:len(value)-8]); got != seeded {
		t.Errorf("%s, want %s", got, seeded)
	}
	again, err := ReadGuard(value, 9)
	if err != nil || !bytes.Equal(again.bytes(-1), value) {
		t.Errorf("%v", err)
	}
	for cut := range value[1:] {
		if _, err := ReadGuard(value[:1+cut], 9); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

// A sketch from before there were seeds goes on without one, and those of later minutes have one.
func TestAGuardOfAnEarlierVersion(t *testing.T) {
	value, _ := hex.DecodeString("02010301067065722d697001010301030201010201010101020202010100fe010100ff05")
	g, err := ReadGuard(sealed(value), 9)
	if err != nil {
		t.Fatal(err)
	}
	of := g.rules["per-ip"]
	before := *of.keys[0].sketch
	g.Sees("per-ip", "203.0.113.7", 60_000)
	if *of.keys[0].sketch != before {
		t.Error("a key that it has counts again")
	}
	g.Sees("per-ip", "203.0.113.7", 120_000)
	if len(of.keys) != 2 || of.keys[0].seed != 0 || of.keys[1].seed != 9 {
		t.Errorf("%+v", of.keys)
	}
	again, err := ReadGuard(g.bytes(-1), 9)
	if err != nil || again.rules["per-ip"].keys[1].seed != 9 || again.rules["per-ip"].keys[0].seed != 0 {
		t.Errorf("%v: seeds are lost", err)
	}
}

// A client cannot look for a few keys that pass for many.
func TestKeysThatAreLookedForAreNotMore(t *testing.T) {
	const without = 0
	known, g := &sketch{}, NewGuard(9)
	for n, found := 0, 0; found < sketchRegisters; n++ { // one for each register
		key := fmt.Sprint(n)
		var one sketch
		one.add(key, without)
		i := slices.Index(one[:], slices.Max(one[:]))
		if one[i] < 8 || known[i] > 0 {
			continue
		}
		found++
		known.add(key, without)
		g.Sees("r", key, 60_000)
	}
	if n := known.keys(); n < 100_000 {
		t.Errorf("without a seed they pass for %.0f keys", n)
	}
	if n, _ := g.rules["r"].keysOf(1); n > 1024*1.3 {
		t.Errorf("they pass for %.0f keys", n)
	}
}

func sealed(b []byte) []byte { return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b)) }

// A guard in the store is read or refused. One that was read can count, and is the same when it is written.
func FuzzReadGuard(f *testing.F) {
	both := rule.Guard{MostNew: 1, MostShare: 1}
	for _, guard := range []rule.Guard{{MostNew: 1}, {MostShare: 1}, both} {
		g := &Guard{}
		for n := range int64(30) {
			if guard.MostShare > 0 {
				g.Sees("r", fmt.Sprint(n), n*10_000)
			}
			g.Begins("r", guard, 1, Beginning{From: n * 10_000, At: Place{1, n, 0}})
		}
		value := g.bytes(-1)
		f.Add(value[:len(value)-8])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		g, err := ReadGuard(sealed(body), 9)
		if err != nil {
			return
		}
		for n := range int64(3) {
			at := Place{g.recorded.Generation, n, 0}
			g.Sees("r", "key", n*minute)
			g.Begins("r", both, 4, Beginning{From: n * minute, At: at})
		}
		value := g.bytes(-1)
		again, err := ReadGuard(value, 9)
		if err != nil || !bytes.Equal(again.bytes(-1), value) {
			t.Errorf("%x: %v", value, err)
		}
	})
}

func BenchmarkSees(b *testing.B) {
	g, key := &Guard{}, "203.0.113.7"
	for b.Loop() {
		g.Sees("per-ip", key, 1_700_000_000_000)
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

	for n := range 4 {
		by, moved := bounds[n/2], n%2 == 1
		guarded := v
		guarded.Guarded = by
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
		value[1] ^= isShared
		if _, err := ReadRecord(sealed(value[:len(value)-8])); !errors.Is(err, ErrDamaged) {
			t.Errorf("with the flag of another version: %v", err)
		}
		value[1] &^= isGuarded | isShared
		if _, err := ReadRecord(sealed(value[:len(value)-8])); !errors.Is(err, ErrDamaged) {
			t.Errorf("without the flag: %v", err)
		}
	}
}
