package windows

import (
	"container/heap"
	"context"
	"strings"

	"weir/internal/store"
	"weir/pkg/window"
)

// Awaited windows have an offence that is not decided yet (window.Policy.Judge): it is when the partition's time has come
// far enough, also if the key sends nothing more. The store has a note of each, from the write that has the offence on, to
// the checkpoint that comes after what followed is published. So the next owner of the partition finds them, and publishes
// again what the last owner decided and Kafka may not have.
//
// There are at most as many as keys that broke a limit within the lateness, or that had more hits than a limit of different
// values, which is estimated: their offence may be none.
type awaited struct {
	byName map[string]*awaitedWindow
	queue  awaitedQueue
	noted  map[string]bool  // the store has a note of them
	over   []string         // of these, those whose notes go with the next checkpoint
	taken  []*awaitedWindow // by Due
	found  []string         // of these, those that the store had when the partition was taken, and that are not looked at yet
}

// An awaitedWindow is the name of a window, and the instant behind which its offence is decided.
type awaitedWindow struct {
	name  string
	due   int64
	place int // in the queue; -1 while Due has taken it
}

const (
	awaitedPrefix = "awaited/"
	mostOver      = 1000 // notes that go with one checkpoint
)

// Await notes when the offence of a window is to be decided, or that it has none.
func (h *Set) Await(w *Window) {
	due := w.Rule.Policy.Due(&w.State)
	a := h.awaited.byName[w.Name]
	switch {
	case due == window.Never && a == nil:
	case due == window.Never:
		if a.place >= 0 {
			heap.Remove(&h.awaited.queue, a.place)
		}
		delete(h.awaited.byName, w.Name)
	case a == nil:
		if h.awaited.byName == nil {
			h.awaited.byName = map[string]*awaitedWindow{}
		}
		a = &awaitedWindow{name: strings.Clone(w.Name), due: due}
		h.awaited.byName[a.name] = a
		heap.Push(&h.awaited.queue, a)
	case a.place < 0:
		a.due = due
		heap.Push(&h.awaited.queue, a)
	case a.due != due:
		a.due = due
		heap.Fix(&h.awaited.queue, a.place)
	}
}

// Due are the windows, at most as many, whose offences can be decided at an instant. They are in memory or wanted. When they
// are decided, Await has to be called for each; until then the next call returns them again.
func (h *Set) Due(now int64, most int, rule func(name string) *Rule) (due []*Window) {
	for _, a := range h.awaited.taken {
		if a.place < 0 && h.awaited.byName[a.name] == a {
			heap.Push(&h.awaited.queue, a)
		}
	}
	h.awaited.taken = h.awaited.taken[:0]

	for len(due) < most && len(h.awaited.queue) > 0 && h.awaited.queue[0].due < now {
		a := h.awaited.queue[0]
		heap.Pop(&h.awaited.queue)
		w := h.sought(a.name, rule)
		if w == nil {
			delete(h.awaited.byName, a.name)
			continue
		}
		due = append(due, w)
		h.awaited.taken = append(h.awaited.taken, a)
	}
	return due
}

// sought is a window that is in memory or wanted; nil where its rule is gone: that decides nothing any more.
func (h *Set) sought(name string, rule func(name string) *Rule) *Window {
	ruleName, _, _ := strings.Cut(name, "/")
	r := rule(ruleName)
	if r == nil {
		return nil
	}
	if w, _ := h.FindNamed(name); w != nil {
		return w
	}
	return h.Want(name, r)
}

// FindNoted reads which notes the store has.
func (h *Set) FindNoted(ctx context.Context) error {
	for from, last := store.Cursor(""), false; !last; {
		page, err := h.own.Scan(ctx, store.Notes, from, scanKeys)
		if err != nil {
			return err
		}
		for _, pair := range page.Pairs {
			if name, isAwaited := strings.CutPrefix(string(pair.Key), awaitedPrefix); isAwaited && !h.awaited.noted[name] {
				h.note(name)
				h.awaited.found = append(h.awaited.found, name)
			}
		}
		from, last = page.Next, page.Next == ""
	}
	return nil
}

// Found are the windows, at most as many, of notes that the store had when the partition was taken. They are in memory or
// wanted. The next call returns the same, until TookFound is called.
func (h *Set) Found(most int, rule func(name string) *Rule) (found []*Window) {
	for _, name := range h.awaited.found[:min(most, len(h.awaited.found))] {
		if w := h.sought(name, rule); w != nil {
			found = append(found, w)
		}
	}
	return found
}

// Finds reports whether Found has more.
func (h *Set) Finds() bool { return len(h.awaited.found) > 0 }

// TookFound says that those are looked at that Found returned for as many.
func (h *Set) TookFound(most int) {
	h.awaited.found = h.awaited.found[min(most, len(h.awaited.found)):]
}

func (h *Set) note(name string) {
	if h.awaited.noted == nil {
		h.awaited.noted = map[string]bool{}
	}
	h.awaited.noted[name] = true
}

// appendNote appends the note of a window that is about to be written, if the store has none.
func (h *Set) appendNote(w *Window) {
	if h.awaited.byName[w.Name] != nil && !h.awaited.noted[w.Name] {
		h.changes = append(h.changes, store.Change{Space: store.Notes, Key: []byte(awaitedPrefix + w.Name), Value: []byte{recordVersion}})
	}
}

// notedIs notes that the store has the note of a window that was written.
func (h *Set) notedIs(w *Window) {
	if h.awaited.byName[w.Name] != nil && !h.awaited.noted[w.Name] {
		h.note(strings.Clone(w.Name))
	}
}

// TakeOver notes which notes go with the checkpoint that is taken now.
func (h *Set) TakeOver() {
	h.awaited.over = h.awaited.over[:0]
	if len(h.awaited.found) > 0 {
		return
	}
	for name := range h.awaited.noted {
		if h.awaited.byName[name] == nil {
			h.awaited.over = append(h.awaited.over, name)
		}
		if len(h.awaited.over) == mostOver {
			return
		}
	}
}

// Over are the notes that go with the checkpoint. One of a window that is awaited again stays.
func (h *Set) Over() (changes []store.Change) {
	for _, name := range h.awaited.over {
		if h.awaited.byName[name] == nil {
			changes = append(changes, store.Change{Space: store.Notes, Key: []byte(awaitedPrefix + name)})
		}
	}
	return changes
}

// WroteOver says that the checkpoint is written, with Over.
func (h *Set) WroteOver() {
	for _, name := range h.awaited.over {
		if h.awaited.byName[name] == nil {
			delete(h.awaited.noted, name)
		}
	}
	h.awaited.over = h.awaited.over[:0]
}

// An awaitedQueue is a heap by due.
type awaitedQueue []*awaitedWindow

func (q awaitedQueue) Len() int           { return len(q) }
func (q awaitedQueue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q awaitedQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *awaitedQueue) Push(x any) {
	a := x.(*awaitedWindow)
	a.place = len(*q)
	*q = append(*q, a)
}

func (q *awaitedQueue) Pop() any {
	last := len(*q) - 1
	a := (*q)[last]
	a.place = -1
	(*q)[last] = nil
	*q = (*q)[:last]
	return a
}
