package window

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A state that is read goes on as the one that was written would have: at any moment, under every algorithm.
func TestBytesGoOnAlike(t *testing.T) {
	r := random(t)
	for range 3000 {
		sc := randomScene(r, Algorithms()[r.IntN(int(algorithms))])
		if r.IntN(4) == 0 {
			sc.config.Remember = minRemember
			sc.config.Limits = append(sc.config.Limits, Limit{100_000 + r.Int64N(1<<38), pick(r, time.Second, time.Minute, 24*time.Hour)})
		}
		if r.IntN(3) == 0 {
			for i := range sc.hits {
				sc.hits[i].at = sc.hits[i].at / 1000 * 1000
			}
		}
		p, err := New(sc.config)
		if err != nil {
			continue // a bucket too large
		}
		var s State
		for i, m := range shuffled(r, sc.hits, sc.config.Late.Milliseconds()) {
			if i%7 == 0 {
				s = reread(t, p, &s)
			}
			before := reread(t, p, &s)
			if got, want := p.Hit(&before, m.at, m.cost), p.Hit(&s, m.at, m.cost); got != want {
				t.Fatalf("%+v\nhit %d: after reading %+v, else %+v", sc.config, i, got, want)
			}
			if got, want := p.Clear(&before), p.Clear(&s); got != want {
				t.Fatalf("%+v\nhit %d: after reading clear at %d, else %d", sc.config, i, got, want)
			}
		}
	}
}

func reread(t testing.TB, p *Policy, s *State) State {
	t.Helper()
	var back State
	b := p.Append([]byte("before"), s)
	if err := p.Read(b[len("before"):], &back); err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	return back
}

func TestTenHitsAreFortyBytes(t *testing.T) {
	tests := []struct {
		name   string
		limits []Limit
		unit   int64
		most   int
	}{
		{"milliseconds of a minute", []Limit{{10, time.Minute}}, 1, 40},
		{"milliseconds of a day", []Limit{{10, time.Minute}, {100, time.Hour}, {1000, 24 * time.Hour}}, 1, 40},
		{"seconds of a day", []Limit{{10, time.Minute}, {100, time.Hour}, {1000, 24 * time.Hour}}, 1000, 28},
		{"seconds of a minute", []Limit{{10, time.Minute}}, 1000, 26},
	}
	r := random(t)
	for _, test := range tests {
		p := mustNew(t, Config{Limits: test.limits, Late: 10 * time.Minute, Block: Block{For: time.Minute}})
		per := test.limits[len(test.limits)-1].Per.Milliseconds()
		most, sum := 0, 0
		for range 500 {
			b := p.Append(nil, tenHits(r, p, per, test.unit))
			most, sum = max(most, len(b)), sum+len(b)
		}
		t.Logf("%s: %d bytes at most, %.1f on average", test.name, most, float64(sum)/500)
		if most > test.most {
			t.Errorf("%s: %d bytes, want %d at most", test.name, most, test.most)
		}
	}
}

func tenHits(r *rand.Rand, p *Policy, per, unit int64) *State {
	var s State
	for p.Count(&s, len(p.algorithm.(*sliding).groups[0].limits)-1, s.newest) < 10 {
		s = State{}
		at := int64(someTime)
		for range 10 {
			at += r.Int64N(per / 6)
			p.Hit(&s, at/unit*unit, 1)
		}
	}
	return &s
}

// The bytes of version 1, held for ever.
func TestBytesOfVersion1(t *testing.T) {
	limits := []Limit{{10, time.Minute}, {100_000, time.Hour}}
	tests := []struct {
		algorithm Algorithm
		want      string
	}{
		{Sliding, "10038be2cfaa06e0d40390aa0c010201010600024e010201dddb0101020004"},
		{Fixed, "11038be2cfaa06e0d40390aa0c0102e0d4030102000480dddb0101020004"},
		{Counter, "12038be2cfaa06e0d40390aa0c0102e0d4030404000000030180dddb0104020004"},
		{Token, "1309f8a596ffbc31e0d40390aa0c0102f02e01b06d00a01f2401240000"},
		{Uniform, "1409f8a596ffbc31e0d40390aa0c0102f02e01b06d00a01f2401240000"},
		{Leaky, "1509f8a596ffbc31e0d40390aa0c0102f02e01b06d00a01f2401240000"},
	}
	for _, test := range tests {
		p := mustNew(t, Config{Algorithm: test.algorithm, Limits: limits, Subwindows: 4, Burst: 20, Late: time.Minute, Block: Block{For: time.Minute}})
		var s State
		p.Hit(&s, someTime-90_000, 100)
		for _, at := range []int64{0, 7000, 7000, 11_000} {
			p.Hit(&s, someTime+at, 1)
		}
		if got := hex.EncodeToString(p.Append(nil, &s)); got != test.want {
			t.Errorf("%v: the bytes are\n%s, were\n%s", test.algorithm, got, test.want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	p := mustNew(t, Config{Limits: []Limit{{10, time.Minute}}, Block: Block{For: time.Minute}})
	var s State
	for i := range int64(5) {
		p.Hit(&s, someTime+i*i, 1+i%2)
	}
	good := p.Append(nil, &s)
	newer := append([]byte{15 << 4}, good[1:]...)
	if err := p.Read(newer, &s); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another version without its checksum: %v", err)
	}
	newer = binary.LittleEndian.AppendUint64(newer, xxhash.Sum64(newer))
	if err := p.Read(newer, &s); !errors.Is(err, ErrNewer) {
		t.Errorf("a newer version: %v", err)
	}
	for i := range good {
		if err := p.Read(good[:i], &s); !errors.Is(err, ErrCorrupt) || !reflect.DeepEqual(s, State{}) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	if err := p.Read(append(good, 0), &s); !errors.Is(err, ErrCorrupt) {
		t.Errorf("with a byte too many: %v", err)
	}
}

// When limits change, what is remembered exactly serves the new ones; other algorithms take from it what they can.
func TestReadUnderOtherLimits(t *testing.T) {
	before := Config{Limits: []Limit{{10, time.Minute}, {100, time.Hour}}, Block: Block{For: time.Minute}}
	var s State
	p := mustNew(t, before)
	for i := range int64(8) {
		p.Hit(&s, someTime+1000*i, 1)
	}
	bytes := p.Append(nil, &s)
	tests := []struct {
		name   string
		config Config
		count  int64
	}{
		{"other limits", Config{Limits: []Limit{{20, 3 * time.Minute}}}, 8},
		{"shorter", Config{Limits: []Limit{{3, 3 * time.Second}}}, 3},
		{"above the bound", Config{Limits: []Limit{{100_000, time.Hour}}}, 8},
		{"fixed", Config{Algorithm: Fixed, Limits: []Limit{{10, 24 * time.Hour}}}, 8},
		{"counter", Config{Algorithm: Counter, Limits: []Limit{{10, 24 * time.Hour}}}, 8},
		{"token", Config{Algorithm: Token, Limits: []Limit{{10, time.Minute}}}, 0},
	}
	for _, test := range tests {
		test.config.Block = before.Block
		q := mustNew(t, test.config)
		var read State
		if err := q.Read(bytes, &read); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if got := q.Count(&read, 0, someTime+7000); got != test.count {
			t.Errorf("%s: %d hits are counted, want %d", test.name, got, test.count)
		}
		if back := q.Append(nil, &read); p.Read(back, &s) != nil {
			t.Errorf("%s: and back: refused", test.name)
		}
	}
}

// Hits that are remembered exactly serve all logs of the new limits, however many these are.
func TestReadIntoManyLogs(t *testing.T) {
	p := mustNew(t, Config{Limits: []Limit{{10, time.Minute}}, Block: Block{For: time.Minute}})
	limits := []Limit{{20, time.Minute}, {100_000, time.Minute}, {100_000, time.Hour}, {200_000, 24 * time.Hour}, {300_000, 24 * time.Hour}}
	for _, algorithm := range []Algorithm{Sliding, Fixed, Counter} {
		q := mustNew(t, Config{Algorithm: algorithm, Limits: limits, Block: Block{For: time.Minute}})
		var s, read State
		p.Hit(&s, someTime, 7)
		if err := q.Read(p.Append(nil, &s), &read); err != nil {
			t.Fatal(err)
		}
		for i, limit := range limits {
			if count := q.Count(&read, i, someTime); count != 7 {
				t.Errorf("%v: %d hits per %v are counted, want 7", algorithm, count, limit.Per)
			}
		}
	}
}

// A large limit of a short time has cells of a millisecond, as exact logs have: what other logs hold is not read twice for it.
func TestReadCountsOnceWhereCellsAreMilliseconds(t *testing.T) {
	hour, moment := Limit{100_000, time.Hour}, Limit{5000, 100 * time.Millisecond}
	for _, test := range []struct{ before, after []Limit }{
		{[]Limit{hour, moment}, []Limit{hour, moment}},
		{[]Limit{moment, hour}, []Limit{hour, moment}},
		{[]Limit{{10, time.Minute}, moment}, []Limit{hour, moment}},
	} {
		p := mustNew(t, Config{Limits: test.before, Block: Block{For: time.Minute}})
		q := mustNew(t, Config{Limits: test.after, Block: Block{For: time.Minute}})
		var s, read State
		for i := range int64(7) {
			p.Hit(&s, someTime+i, 1)
		}
		if err := q.Read(p.Append(nil, &s), &read); err != nil {
			t.Fatal(err)
		}
		for i, limit := range test.after {
			if count := q.Count(&read, i, someTime+6); count != 7 {
				t.Errorf("%v read as %v: %d hits per %v are counted, want 7", test.before, test.after, count, limit.Per)
			}
		}
	}
}

// Nor does it take the place of what reaches back further.
func TestReadKeepsTheLongerOfTwoExactLogs(t *testing.T) {
	few, hour, moment := Limit{10, time.Minute}, Limit{100_000, time.Hour}, Limit{5000, 100 * time.Millisecond}
	p := mustNew(t, Config{Limits: []Limit{few, moment}, Block: Block{For: time.Minute}})
	q := mustNew(t, Config{Limits: []Limit{few, hour}, Block: Block{For: time.Minute}})
	var s, read State
	for i := range int64(7) {
		p.Hit(&s, someTime+1000*i, 1)
	}
	if err := q.Read(p.Append(nil, &s), &read); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if count := q.Count(&read, i, someTime+6000); count != 7 {
			t.Errorf("limit %d counts %d, want 7", i, count)
		}
	}
}

func TestReadKeepsTheBlock(t *testing.T) {
	p := mustNew(t, Config{Limits: []Limit{{1, time.Minute}}, Block: Block{For: Forever}})
	for _, a := range Algorithms() {
		q := mustNew(t, Config{Algorithm: a, Limits: []Limit{{5, time.Hour}}, Block: Block{For: time.Minute}})
		var s, read State
		p.Hit(&s, someTime, 2)
		if err := q.Read(p.Append(nil, &s), &read); err != nil {
			t.Fatal(err)
		}
		if from, until, level, ok := read.Block(); from != someTime || until != Never || level != 1 || !ok {
			t.Errorf("%v: block %d %d %d %v", a, from, until, level, ok)
		}
	}
}
