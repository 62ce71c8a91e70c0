package windows

// A ring has the hot windows, and chooses the one that is pushed out by second chance (CLOCK): a hand goes round, passes
// over those that were asked for since it was there last, and stops at the first other one. A window takes 8 bytes, and
// one that is found again and again changes nothing.
type ring struct {
	windows []*Window
	hand    int // the next candidate
	look    int // the next that forgetting looks at
}

func (r *ring) len() int { return len(r.windows) }

// add puts a window behind all others.
func (r *ring) add(w *Window) {
	w.place, w.asked = uint32(len(r.windows)), false
	r.windows = append(r.windows, w)
}

// remove takes a window out. The newest one takes its place.
func (r *ring) remove(w *Window) {
	last := len(r.windows) - 1
	moved := r.windows[last]
	r.windows[w.place], moved.place = moved, w.place
	r.windows[last] = nil
	r.windows = r.windows[:last]
}

// pushOut takes the window out that the hand chooses. The one that takes its place is looked at in the next round.
func (r *ring) pushOut() *Window {
	for {
		w := r.windows[r.hand%len(r.windows)]
		r.hand = int(w.place) + 1
		if !w.asked {
			r.remove(w)
			return w
		}
		w.asked = false
	}
}

// forget looks at windows, one after another with each call, and takes out those that can be forgotten, until it has met
// some that cannot.
func (r *ring) forget(others int, can func(*Window) bool) {
	for others > 0 && len(r.windows) > 0 {
		r.look %= len(r.windows)
		if w := r.windows[r.look]; can(w) {
			r.remove(w) // and the window that takes its place is next
			continue
		}
		r.look++
		others--
	}
}
