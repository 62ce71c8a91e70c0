// Package windows keeps the windows of one partition: the hot ones in memory, all in the store.
//
// A Set finds windows in memory, reads those that are wanted, keeps the hits that wait for these, and writes back those
// that changed, in the order of their first change. New gets the number of hot windows. There are also the evicted ones
// that are not written yet, and those that are not read yet. They have no bound here: the owner of the partition stops
// counting while they are too many. A hot window takes 128 bytes, some 150 of what finds and orders it, and its hits. A
// Saver writes a checkpoint when all changes before it are safe, and a Sweep deletes clear windows from the store. An
// Owned partition of the store is written with a fence, so that only its owner can write.
//
// One goroutine uses a Set and what belongs to it. Methods that take a context wait for the store; no others do. The
// package knows no Kafka, decides nothing and publishes nothing.
package windows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"weir/internal/store"
	"weir/pkg/window"
)

const (
	// ReadKeys is how many windows one call of the store reads at most.
	ReadKeys = 5000
	// SmallestSize is how many windows are hot at least.
	SmallestSize = 16

	writeKeys = 500 // changed windows written by one call
	scanKeys  = 256 // of the store, looked through by one call

	// A call has to end within callPatience, also over a slow network, and Redis does nothing else meanwhile.
	readBytes  = 8 << 20   // of windows, that one call reads, as far as that can be foreseen
	writeBytes = 4 << 20   // that one call writes, with one window more
	firstBytes = 128 << 10 // of a window of a rule, before one was read
)

// A Set has the windows that are in memory: the hot ones, as many as New was given; those that were pushed out and
// are not written yet; and those that are not read yet.
//
// A window that is wanted moves to the front of the hot ones, unless fewer than an eighth of their number were added
// since its last move. So a window that is found again and again does not touch the list.
type Set struct {
	WriteKeys int      // changed windows written by one call at most
	Guard     *Guard   // it is written together with windows; nil until the partition is taken
	Traffic   *Traffic // it is written with checkpoints; nil until the partition is taken

	own      *Owned
	notices  Notices
	hot      *simplelru.LRU[*Window, struct{}]
	size     int
	added    uint32             // how many windows were, going round
	looked   uint32             // what added was when Forget looked last
	oldest   []*Window          // that Forget looks at next, if they are still hot
	table    table              // of the hot ones
	name     []byte             // of one that is sought elsewhere
	leaving  map[string]*Window // evicted, and not written yet or needed by the batches at hand
	dropped  []*Window          // evicted while the batches at hand are counted
	unloaded map[string]*Window // wanted, and not read yet
	wanted   []*Window          // the same, in the order of wanting
	read     [][]byte           // what the store has of the first that are wanted
	reading  *reading           // of the next of them, or nil
	parcels  []Parcel           // hits of windows that are not read yet
	waiting  int                // how many hits these are

	// changed are the windows that differ from what the store has, in the order in which they began to.
	changed []*Window
	head    int
	written uint64 // how many have left changed

	awaited awaited

	changes []store.Change
	names   [][]byte
	bytes   []byte
}

// Notices are called for what others count or log.
type Notices struct {
	Cold    func(windows int)        // they were read from the store
	New     func()                   // a window is known not to be there
	Damaged func(error)              // a window that the store has cannot be read
	Saved   func(took time.Duration) // a checkpoint was written
}

// New makes the set of windows of a partition in the store. At most size of them are hot.
func New(size int, own *Owned, notices Notices) *Set {
	size = max(size, SmallestSize)
	h := &Set{own: own, notices: notices, size: size, table: newTable(), WriteKeys: writeKeys, leaving: map[string]*Window{}, unloaded: map[string]*Window{}}
	h.hot, _ = simplelru.NewLRU[*Window, struct{}](h.size, nil) // it fails for sizes below 1 only
	return h
}

// pushOut pushes the window out that was not asked for for longest.
func (h *Set) pushOut() {
	w, _, _ := h.hot.RemoveOldest()
	w.evicted = true
	h.table.remove(w)
	h.leaving[w.Name] = w
	h.dropped = append(h.dropped, w)
}

// Settle forgets what was pushed out and has nothing to write. The batches at hand are counted.
func (h *Set) Settle() {
	for _, w := range h.dropped {
		if w.evicted && !w.dirty {
			delete(h.leaving, w.Name)
		}
	}
	clear(h.dropped)
	h.dropped = h.dropped[:0]
}

// Resize has another number of windows be hot.
func (h *Set) Resize(size int) {
	h.size = max(size, SmallestSize)
	for h.hot.Len() > h.size {
		h.pushOut()
	}
	h.hot.Resize(h.size)
}

// FindNamed returns the window of a name, "rule/key", that is in memory, or nil.
func (h *Set) FindNamed(name string) (w *Window, hot bool) {
	rule, key, _ := strings.Cut(name, "/")
	return h.FindHashed(h.table.hash(h.table.ofRule(rule), []byte(key)), rule, []byte(key))
}

// peekHot returns the hot window of a name, or nil, and wants nothing.
func (h *Set) peekHot(name string) *Window {
	rule, key, _ := strings.Cut(name, "/")
	return h.table.find(h.table.hash(h.table.ofRule(rule), []byte(key)), rule, []byte(key))
}

// FindHashed returns the window of a rule and a key that is in memory, or nil, by the hash of both.
func (h *Set) FindHashed(hash uint64, rule string, key []byte) (w *Window, hot bool) {
	if w := h.table.find(hash, rule, key); w != nil {
		h.ask(w)
		return w, true
	}
	h.name = append(append(append(h.name[:0], rule...), '/'), key...)
	if w, ok := h.leaving[string(h.name)]; ok {
		delete(h.leaving, w.Name)
		h.add(w)
		return w, true
	}
	return h.unloaded[string(h.name)], false
}

// ask notes that a hot window is wanted.
func (h *Set) ask(w *Window) {
	if h.added-w.moved > uint32(h.size/8) {
		h.hot.Get(w)
		w.moved = h.added
	}
}

// Want returns a new window. It is to be read, unless the store is known not to have it.
func (h *Set) Want(name string, rule *Rule) *Window {
	w := newWindow(name, rule)
	if h.own.known.lacks([]byte(name)) {
		h.notices.New()
		w.empty()
		h.add(w)
		return w
	}
	w.evicted = true
	h.unloaded[name] = w
	h.wanted = append(h.wanted, w)
	return w
}

func (h *Set) add(w *Window) {
	if h.hot.Len() >= h.size {
		h.pushOut()
	}

	h.added++
	w.evicted, w.moved = false, h.added
	h.table.add(w)
	h.hot.Add(w, struct{}{})
}

// looks is how many windows Forget looks at for each one that was added.
const looks = 3

// Forget drops windows that nothing waits for: they are written, and have been clear since an instant, by the time of
// their hits. The store still has them. It looks at a few for each one that was added since the last call, the oldest
// first, and at all of them one after another. No batches may be at hand.
func (h *Set) Forget(clear int64) {
	n := min(looks*int(h.added-h.looked), h.hot.Len())
	h.looked = h.added
	if n > 0 && len(h.oldest) == 0 {
		h.oldest = h.hot.Keys()
	}
	n = min(n, len(h.oldest))

	for i, w := range h.oldest[:n] {
		h.oldest[i] = nil
		if w.evicted || w.dirty || w.Rule.Policy.Clear(&w.State) > clear {
			continue
		}
		w.evicted = true
		h.hot.Remove(w)
		h.table.remove(w)
	}
	h.oldest = h.oldest[n:]
}

// Change notes that a window is about to change.
func (h *Set) Change(w *Window) {
	if w.dirty {
		return
	}
	w.dirty = true
	h.changed = append(h.changed, w)
	if w.evicted {
		h.leaving[w.Name] = w
	}
}

// Dirty is how many windows differ from what the store has.
func (h *Set) Dirty() int { return len(h.changed) - h.head }

// Tail is what written will be when all that have changed by now are written.
func (h *Set) Tail() uint64 { return h.written + uint64(h.Dirty()) }

// wrote notes that the first windows of changed are written.
func (h *Set) wrote(count int) {
	for i := range count {
		w := h.changed[h.head+i]
		h.changed[h.head+i] = nil
		w.dirty, w.Index = false, IndexKept
		h.notedIs(w)
		if w.evicted {
			delete(h.leaving, w.Name)
		}
	}

	h.head += count
	h.written += uint64(count)
	if h.head > len(h.changed)/2 {
		rest := copy(h.changed, h.changed[h.head:])
		clear(h.changed[rest:])
		h.changed, h.head = h.changed[:rest], 0
	}
}

// WriteBack writes the windows that have been changed for longest, a few hundred; fewer where they are large.
func (h *Set) WriteBack(ctx context.Context) error {
	windows := h.changed[h.head:min(h.head+h.WriteKeys, len(h.changed))]
	if len(windows) == 0 {
		return nil
	}

	h.changes, h.bytes = h.changes[:0], h.bytes[:0]
	for i, w := range windows {
		if len(h.bytes) >= writeBytes {
			windows = windows[:i]
			break
		}
		h.appendChanges(w)
	}
	h.changes = h.Guard.appendChange(h.changes, h.firstWaiting())
	if err := h.own.Write(ctx, h.changes); err != nil {
		return fmt.Errorf("writing windows back: %w", err)
	}
	h.wrote(len(windows))
	return nil
}

func (h *Set) appendChanges(w *Window) {
	begin := len(h.bytes)
	h.bytes = append(h.bytes, w.Name...)
	name := h.bytes[begin:len(h.bytes):len(h.bytes)]

	begin = len(h.bytes)
	h.bytes = appendRecord(h.bytes, w.Generation, w.Offset, w.Verdict)
	h.bytes = sealRecord(w.Rule.Policy.Append(h.bytes, &w.State), begin)
	h.changes = append(h.changes, store.Change{Space: store.Windows, Key: name, Value: h.bytes[begin:len(h.bytes):len(h.bytes)]})

	h.appendNote(w)
	switch w.Index {
	case IndexSet:
		h.changes = append(h.changes, store.Change{Space: store.Index, Key: name, Value: []byte{recordVersion}})
	case IndexDeleted:
		h.changes = append(h.changes, store.Change{Space: store.Index, Key: name})
	}
}

// Load reads all windows that are wanted. Until all are read none is in memory: a window that is there counts at once,
// and would pass over the hits of it that wait. Windows that were read before the store went away are not read again.
// With ErrSlow the store is still reading, and the next call goes on.
func (h *Set) Load(ctx context.Context) error {
	for len(h.read) < len(h.wanted) {
		if h.reading == nil {
			h.reading = h.own.begin(ctx, store.Windows, h.nextNames())
		}
		values, err := h.own.await(h.reading)
		if errors.Is(err, ErrSlow) {
			return fmt.Errorf("reading windows: %w", err)
		}
		h.reading = nil
		if err != nil {
			h.readLess()
			return fmt.Errorf("reading windows: %w", err)
		}
		h.readAs(values)
		h.notices.Cold(len(values))
		h.read = append(h.read, values...)
	}

	for i, w := range h.wanted {
		if err := h.Fill(w, h.read[i]); err != nil {
			return err
		}
		delete(h.unloaded, w.Name)
		h.add(w)
	}
	h.wanted, h.read = nil, nil
	return nil
}

// nextNames are those of the windows to read next.
func (h *Set) nextNames() [][]byte {
	rest, bytes := h.wanted[len(h.read):], 0
	h.names = h.names[:0]
	for _, w := range rest[:min(ReadKeys, len(rest))] {
		if bytes += w.Rule.expected(); bytes > readBytes && len(h.names) > 0 {
			break
		}
		h.names = append(h.names, []byte(w.Name))
	}
	return h.names
}

// readAs notes how large the windows of each rule were that a call has read. The next call expects half of what this one
// did, at least.
func (h *Set) readAs(values [][]byte) {
	bytes, windows := map[*Rule]int{}, map[*Rule]int{}
	for i, value := range values {
		rule := h.wanted[len(h.read)+i].Rule
		bytes[rule] += len(value)
		windows[rule]++
	}
	for rule, n := range windows {
		rule.bytes = max(1, bytes[rule]/n, rule.expected()/2)
	}
}

// readLess has the next call read fewer windows, after one that failed: it may have taken too long.
func (h *Set) readLess() {
	rules := map[*Rule]bool{}
	for i := range h.names {
		rules[h.wanted[len(h.read)+i].Rule] = true
	}
	for rule := range rules {
		rule.bytes = min(readBytes, 4*rule.expected())
	}
}

// Fill gives a window what the store has of it. The error is ErrNewer or window.ErrNewer.
func (h *Set) Fill(w *Window, value []byte) error {
	w.empty()
	if value == nil {
		return nil
	}

	record, err := ReadRecord(value)
	if err == nil {
		err = w.Rule.Policy.Read(record.State, &w.State)
	}
	if IsNewer(err) {
		return fmt.Errorf("the window of %q: %w", w.Name, err)
	}

	if err != nil { // its hits are lost; an empty window blocks no key that kept its limit
		h.notices.Damaged(fmt.Errorf("the window of %q is empty again: %w", w.Name, err))
		w.State = window.State{}
		return nil
	}

	w.Generation, w.Offset, w.Verdict = record.Generation, record.Offset, record.Verdict
	return nil
}

// IsNewer says whether an error is that a newer version wrote what was read.
func IsNewer(err error) bool { return errors.Is(err, ErrNewer) || errors.Is(err, window.ErrNewer) }

// Peek returns the window of a name that is in memory and was read, or nil. It wants nothing, and moves nothing.
func (h *Set) Peek(name string) *Window {
	if w := h.peekHot(name); w != nil {
		return w
	}
	return h.leaving[name]
}

// Has says whether a window is in memory.
func (h *Set) Has(name string) bool {
	if h.peekHot(name) != nil {
		return true
	}
	_, leaving := h.leaving[name]
	_, unloaded := h.unloaded[name]
	return leaving || unloaded
}

// Hot are the hot windows, those first that were not asked for for longest.
func (h *Set) Hot() []*Window { return h.hot.Keys() }

// Len is how many windows are hot.
func (h *Set) Len() int { return h.hot.Len() }

// Leaving is how many evicted windows wait to be written.
func (h *Set) Leaving() int { return len(h.leaving) }

// Wanted is how many windows are to be read.
func (h *Set) Wanted() int { return len(h.wanted) }

// Written is how many changed windows were written, of all that ever changed.
func (h *Set) Written() uint64 { return h.written }

// OfRule is what the hashes of a rule's windows have in common.
func (h *Set) OfRule(name string) uint64 { return h.table.ofRule(name) }

// Hash is the hash of a key's window, by what OfRule returned.
func (h *Set) Hash(ofRule uint64, key []byte) uint64 { return h.table.hash(ofRule, key) }

// Likely is a hot window of a hash, or nil: all but certainly the one that is sought.
func (h *Set) Likely(hash uint64) *Window { return h.table.likely(hash) }
