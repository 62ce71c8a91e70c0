package windows

import (
	"weir/pkg/request"
	"weir/pkg/window"
)

// A Window is the memory of one (rule, key). It has 128 bytes and lies on two lines of the processor's cache: the
// line that a lookup reads also has the fields that a hit changes.
type Window struct {
	Name  string // "rule/key": in the hot set, in the store, on the list
	State window.State
	Rule  *Rule

	Generation, Offset int64    // hits up to and with this one are in the state
	Verdict            *Verdict // the last one
	moved              uint32   // Set.added when it was last moved to the front
	Loaded             bool     // what the store has of it was read
	dirty              bool     // it stands in Set.changed
	evicted            bool     // it is not in Set.hot
	Index              IndexChange

	text [32]byte // the name, where it is not longer
}

func newWindow(name string, rule *Rule) *Window {
	w := &Window{Name: name, Rule: rule}
	if n := copy(w.text[:], name); n == len(name) {
		w.Name = request.Text(w.text[:n])
	}
	return w
}

// empty has the window be one that the store does not have.
func (w *Window) empty() { w.Loaded, w.Generation, w.Offset = true, 0, -1 }

// An IndexChange is what the index of live verdicts has to learn with the next write.
type IndexChange uint8

const (
	IndexKept IndexChange = iota
	IndexSet
	IndexDeleted
)

// Covers says whether hits at an offset are in the state already.
func (w *Window) Covers(generation, offset int64) bool {
	return w.Generation > generation || w.Generation == generation && w.Offset >= offset
}

// Key is the key, without the rule.
func (w *Window) Key() string { return w.Name[len(w.Rule.Name)+1:] }

// is says whether the window is that of a rule and a key.
func (w *Window) is(rule string, key []byte) bool {
	n := len(rule)
	return len(w.Name) == n+1+len(key) && w.Name[n+1:] == string(key) && w.Name[n] == '/' && w.Name[:n] == rule
}

// CountAgain has the key's hits count again, from an instant on, if the last block is guarded and has lasted for long enough
// by then. A guarded block refuses no one, so a key that goes on may begin another one, which the guard may let through.
func (w *Window) CountAgain(at int64) {
	if v := w.Verdict; v != nil && v.Guarded != 0 {
		w.countAgain(v, at)
	}
}

func (w *Window) countAgain(v *Verdict, at int64) {
	if at < v.CountsAgain() || !v.HeldBack(w.Rule) {
		return
	}
	if from, _, level, ok := w.State.Block(); ok && from == v.From && level == v.Level {
		w.Rule.Policy.Waive(&w.State, v.CountsAgain())
	}
}

// Touch reads a little of the window, so that it comes from memory together with others.
func (w *Window) Touch() int { return len(w.Name) + int(w.moved) + int(w.text[0]) }

// Convert has the window counted by another version of its rule. It keeps the hits that the other version can count.
func (w *Window) Convert(to *Rule) {
	if w.Loaded {
		bytes := w.Rule.Policy.Append(nil, &w.State)
		var state window.State
		if to.Policy.Read(bytes, &state) == nil {
			w.State = state
		}
	}
	w.Rule = to
}
