package window

import (
	"encoding/hex"
	"testing"
	"time"
)

// With each algorithm, a key whose block was waived counts as one that had sent nothing before the block's end: hits before
// the end that it has now are Blocked, and those behind it count. The next offence has the level of the one that was taken
// back.
func TestAWaivedBlockIsNoOffence(t *testing.T) {
	for a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			r := random(t)
			inside, blocked := 0, 0
			for range 2000 {
				sc := randomScene(r, a)
				sc.config.Block.Extend = false
				if a == Counter {
					sc.config.Limits = sc.config.Limits[:1]
				}
				p := mustNew(t, sc.config)
				var s, fresh State
				waived, cut := false, int64(0)
				order := shuffled(r, sc.hits, sc.config.Late.Milliseconds())
				for _, m := range order {
					s = readAgain(t, p, r, s)
					got := p.Hit(&s, m.at, m.cost)
					if !waived {
						from, until, level, ok := s.Block()
						if !ok || s.newest >= until || r.IntN(4) > 0 {
							continue
						}
						cut = from + 1 + r.Int64N(until-from)
						fresh = State{newest: s.newest, rare: &rare{from: waivedFrom, until: cut, level: level - 1}}
						p.Waive(&s, cut)
						waived = true
						continue
					}
					if m.at < cut {
						if got.Event != Blocked && got.Event != Late {
							t.Fatalf("%+v: waived until %d, the hit at %d of %v gives %+v", sc.config, cut, m.at, order, got)
						}
						inside++
						continue
					}
					if want := p.Hit(&fresh, m.at, m.cost); got != want {
						t.Fatalf("%+v: waived until %d, the hit at %d of %v gives\n%+v, without the hits before\n%+v", sc.config, cut, m.at, order, got, want)
					}
					if got.Event == Broke {
						blocked++
					}
				}
			}
			if inside < 100 || blocked < 500 {
				t.Errorf("%d hits inside and %d blocks begun: the traffic shows too little", inside, blocked)
			}
		})
	}
}

// The level is that of the waived block, however often one is waived, and a restart in between changes nothing.
func TestTheLevelBehindAWaivedBlock(t *testing.T) {
	p := mustNew(t, Config{Limits: []Limit{{1, time.Minute}}, Late: time.Minute, Block: Block{For: time.Hour, Then: []time.Duration{2 * time.Hour}, Forget: 24 * time.Hour}})
	var s State
	r := random(t)
	at, level := int64(someTime), 1
	for n := range 20 {
		o := p.Hit(&s, at, 2)
		if o.Event != Broke || o.From != at || o.Level != level || o.Until != at+p.block.lasts(level).Milliseconds() {
			t.Fatalf("offence %d: %+v, want level %d", n, o, level)
		}
		s = readAgain(t, p, r, s)
		if n%3 == 0 { // a block that refuses: the next one is longer
			at, level = o.Until, level+1
			continue
		}
		at += 60_000
		p.Waive(&s, at)
		p.Waive(&s, at+1) // there is no block any more
		if from, until, _, ok := s.Block(); ok {
			t.Errorf("a block from %d until %d", from, until)
		}
		s = readAgain(t, p, r, s)
	}
	fresh := State{}
	if p.Waive(&fresh, someTime); p.Clear(&fresh) != 0 {
		t.Error("a key that broke no limit has a block")
	}
}

// The bytes of a waived block are those of a block since 1970 that has ended, with the level that the next one has: versions
// that do not know waived blocks read it so.
func TestBytesOfAWaivedBlock(t *testing.T) {
	p := mustNew(t, Config{Limits: []Limit{{1, time.Minute}}, Block: Block{For: time.Hour}})
	var s State
	p.Hit(&s, someTime, 2)
	p.Waive(&s, someTime+60_000)
	const want = "100780e2cfaa06dfa499ffbc31fe9fabfef9620101"
	if got := hex.EncodeToString(p.Append(nil, &s)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
