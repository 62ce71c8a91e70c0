package guarded

import (
	"sync"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// refusals are the last ones of the Store, by rule and key. Times count from the Guard's beginning.
type refusals struct {
	mu      sync.Mutex
	of      map[string]refusal
	settled time.Duration // when they were forgotten last
}

// A refusal is the answer to a Want.
type refusal struct {
	taken    window.Taken
	policy   *window.Policy
	cost     int64
	from, to time.Duration
}

func nameOf(w *inline.Want) string { return w.Rule.Name + "\x00" + string(w.Key) }

// note remembers what a verdict of the Store refuses. It was asked for at an instant.
func (r *refusals) note(v *inline.Verdict, wants []inline.Want, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range wants {
		w, t := &wants[i], v.Taken[i]
		if at < r.settled || t.Admitted || w.Rule.Shadow || w.Rule.Queue != nil {
			continue
		}

		for other := range r.of { // any
			if len(r.of) < mostRefusals {
				break
			}
			delete(r.of, other)
		}
		lasts := time.Duration(min(t.Again-t.At, rememberFor.Milliseconds())) * time.Millisecond
		r.of[nameOf(w)] = refusal{t, w.Rule.Policy, w.Cost, at, at + lasts}
	}
}

// repeat answers an attempt that the Store refused a moment ago. It reports whether there is such a refusal.
func (r *refusals) repeat(v *inline.Verdict, wants []inline.Want, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.Begin(wants)
	for i := range wants {
		w := &wants[i]
		one, known := r.of[nameOf(w)]
		known = known && now < one.to && one.policy == w.Rule.Policy && one.cost <= w.Cost && !w.Rule.Shadow
		if v.Taken[i] = (window.Taken{Admitted: true}); known {
			v.Taken[i], v.Admitted, v.Decides = one.taken, false, i
			v.Taken[i].At += (now - one.from).Milliseconds()
		}
	}
	for i := range wants {
		if t := &v.Taken[i]; t.Admitted && !v.Admitted {
			t.At = v.Taken[v.Decides].At
			t.Again = t.At
		}
	}
	return !v.Admitted
}

// forget forgets all of them: an attempt was settled, so a key may admit others now.
func (r *refusals) forget(now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = now
	clear(r.of)
}
