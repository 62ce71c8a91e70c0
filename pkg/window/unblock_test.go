package window

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// After an unblock, a key is blocked by hits that are newer than it, and by no others, however late these come: as if
// the older ones had never been. A restart between two hits changes nothing.
func TestUnblockForgetsHitsThatComeLater(t *testing.T) {
	for a := range algorithms {
		t.Run(a.String(), func(t *testing.T) {
			r := random(t)
			ignored, blocked := 0, 0
			for range 2000 {
				sc := randomScene(r, a)
				if a == Sliding {
					sc.config.Block.Clear = !sc.config.Block.Extend && r.IntN(3) == 0
				}
				if a == Counter {
					sc.config.Limits = sc.config.Limits[:1]
				}
				p := mustNew(t, sc.config)
				order := shuffled(r, sc.hits, sc.config.Late.Milliseconds())
				n := r.IntN(len(order))
				at := order[n].at + pick[int64](r, -3000, -1, 0, 1, 3000)

				var s, fresh State
				for _, m := range order[:n] {
					p.Hit(&s, m.at, m.cost)
				}
				p.Unblock(&s, at)
				for _, m := range order[n:] {
					s = readAgain(t, p, r, s)
					if m.at <= at {
						// It may move the time on, but counts nowhere. With Extend, a later block may take it.
						if _, _, _, ok := s.Block(); ok && sc.config.Block.Extend {
							break
						}
						if o := p.Hit(&s, m.at, m.cost); o.Event != Blocked && o.Event != Late {
							t.Fatalf("%+v: unblocked at %d, the hit at %d of %v gives %+v", sc.config, at, m.at, order, o)
						}
						ignored++
						continue
					}
					got, want := p.Hit(&s, m.at, m.cost), p.Hit(&fresh, m.at, m.cost)
					if got != want {
						t.Fatalf("%+v: unblocked at %d, the hit at %d of %v gives\n%+v, without the hits before\n%+v", sc.config, at, m.at, order, got, want)
					}
					if want.Event == Broke {
						blocked++
					}
				}
			}
			if ignored < 500 || blocked < 500 {
				t.Errorf("%d hits ignored and %d blocks begun: the traffic shows too little", ignored, blocked)
			}
		})
	}
}

// readAgain is a state that was written and read, one time of two.
func readAgain(t *testing.T, p *Policy, r *rand.Rand, s State) State {
	t.Helper()
	if r.IntN(2) == 0 {
		return s
	}
	var read State
	if err := p.Read(p.Append(nil, &s), &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// A key that was unblocked needs no memory once its hits are newer than the unblock.
func TestUnblockIsClear(t *testing.T) {
	p := mustNew(t, Config{Limits: []Limit{{1, time.Minute}}, Late: time.Minute, Block: Block{For: time.Minute, Forget: time.Hour}})
	var s State
	p.Hit(&s, someTime, 5)
	p.Unblock(&s, someTime)
	if _, _, _, ok := s.Block(); ok || p.Clear(&s) != someTime+1 {
		t.Errorf("a block: %v; clear at %d, want %d", ok, p.Clear(&s), someTime+1)
	}
	if o := p.Hit(&s, someTime+1, 2); o.Event != Broke || o.Level != 1 || !slices.Equal(s.Others(), nil) {
		t.Errorf("the first offence behind the unblock is %+v", o)
	}
}
