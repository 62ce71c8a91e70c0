package aggregator

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"weir/internal/store"
	"weir/pkg/request"
	"weir/pkg/window"
)

const (
	writeKeys    = 500  // changed windows written by one call
	readKeys     = 5000 // windows read by one call
	mostLeaving  = 5000 // evicted windows that wait to be written
	smallestSize = 16
)

// A keyed window is what is remembered of one (rule, key). It has 128 bytes and lies on two lines of the processor's
// cache: what a hit changes of it is there once what finds it is.
type keyed struct {
	name  string // "rule/key": in the hot set, in the store, on the list
	state window.State
	rule  *counted

	generation, offset int64    // hits up to and with this one are in the state
	verdict            *Verdict // the last one
	moved              uint32   // hotset.added when it was last moved to the front
	loaded             bool     // what the store has of it was read
	dirty              bool     // it stands in hotset.changed
	evicted            bool     // it is not in hotset.hot
	index              indexChange

	text [32]byte // the name, where it is not longer
}

func newKeyed(name string, rule *counted) *keyed {
	w := &keyed{name: name, rule: rule}
	if n := copy(w.text[:], name); n == len(name) {
		w.name = request.Text(w.text[:n])
	}
	return w
}

// An indexChange is what the index of live verdicts has to learn with the next write.
type indexChange uint8

const (
	indexKept indexChange = iota
	indexSet
	indexDeleted
)

// covers says whether hits at an offset are in the state already.
func (w *keyed) covers(generation, offset int64) bool {
	return w.generation > generation || w.generation == generation && w.offset >= offset
}

func (w *keyed) key() string { return w.name[len(w.rule.name)+1:] }

// is says whether the window is that of a rule and a key.
func (w *keyed) is(rule string, key []byte) bool {
	n := len(rule)
	return len(w.name) == n+1+len(key) && w.name[n+1:] == string(key) && w.name[n] == '/' && w.name[:n] == rule
}

// A hotset holds the windows that are in memory: the hot ones, as many as it is told; those that were pushed out and
// are not written yet; and those that are not read yet.
//
// A window that is wanted moves to the front of the hot ones, unless fewer than an eighth of their number were added
// since it last did: so what is asked for again and again is found without touching the list.
type hotset struct {
	hot      *simplelru.LRU[*keyed, struct{}]
	size     int
	added    uint32            // how many windows were, going round
	table    table             // of the hot ones
	name     []byte            // of one that is sought elsewhere
	chunk    int               // windows written by one call
	leaving  map[string]*keyed // evicted, and not written yet or needed by the batches at hand
	dropped  []*keyed          // evicted while the batches at hand are counted
	unloaded map[string]*keyed // wanted, and not read yet
	wanted   []*keyed          // the same, in the order of wanting
	read     [][]byte          // what the store has of the first that are wanted

	// changed are the windows that differ from what the store has, in the order in which they began to.
	changed []*keyed
	head    int
	written uint64 // how many have left changed
}

func newHotset(size int) *hotset {
	size = max(size, smallestSize)
	h := &hotset{size: size, table: newTable(), chunk: writeKeys, leaving: map[string]*keyed{}, unloaded: map[string]*keyed{}}
	h.hot, _ = simplelru.NewLRU(h.size, h.push) // it fails for sizes below 1 only
	return h
}

// push is told of a window that is pushed out.
func (h *hotset) push(w *keyed, _ struct{}) {
	w.evicted = true
	h.table.remove(w)
	h.leaving[w.name] = w
	h.dropped = append(h.dropped, w)
}

// settle forgets what was pushed out and has nothing to write. The batches at hand are counted.
func (h *hotset) settle() {
	for _, w := range h.dropped {
		if w.evicted && !w.dirty {
			delete(h.leaving, w.name)
		}
	}
	clear(h.dropped)
	h.dropped = h.dropped[:0]
}

func (h *hotset) resize(size int) {
	if size = max(size, smallestSize); size != h.size {
		h.size = size
		h.hot.Resize(size)
	}
}

// find returns the window of a rule and a key that is in memory, or nil.
func (h *hotset) find(rule string, key []byte) (w *keyed, hot bool) {
	return h.findHashed(h.table.hash(h.table.ofRule(rule), key), rule, key)
}

// findNamed does so by the name "rule/key".
func (h *hotset) findNamed(name string) (w *keyed, hot bool) {
	rule, key, _ := strings.Cut(name, "/")
	return h.find(rule, []byte(key))
}

// peek returns the hot window of a name, or nil, and wants nothing.
func (h *hotset) peek(name string) *keyed {
	rule, key, _ := strings.Cut(name, "/")
	return h.table.find(h.table.hash(h.table.ofRule(rule), []byte(key)), rule, []byte(key))
}

func (h *hotset) findHashed(hash uint64, rule string, key []byte) (w *keyed, hot bool) {
	if w := h.table.find(hash, rule, key); w != nil {
		h.ask(w)
		return w, true
	}
	h.name = append(append(append(h.name[:0], rule...), '/'), key...)
	if w, ok := h.leaving[string(h.name)]; ok {
		delete(h.leaving, w.name)
		h.add(w)
		return w, true
	}
	return h.unloaded[string(h.name)], false
}

// ask notes that a hot window is wanted.
func (h *hotset) ask(w *keyed) {
	if h.added-w.moved > uint32(h.size/8) {
		h.hot.Get(w)
		w.moved = h.added
	}
}

// want returns a new window that is to be read.
func (h *hotset) want(name string, rule *counted) *keyed {
	w := newKeyed(name, rule)
	w.evicted = true
	h.unloaded[name] = w
	h.wanted = append(h.wanted, w)
	return w
}

func (h *hotset) add(w *keyed) {
	h.added++
	w.evicted, w.moved = false, h.added
	h.table.add(w)
	h.hot.Add(w, struct{}{})
}

// touch notes that a window is about to change.
func (h *hotset) touch(w *keyed) {
	if w.dirty {
		return
	}
	w.dirty = true
	h.changed = append(h.changed, w)
	if w.evicted {
		h.leaving[w.name] = w
	}
}

// dirty is how many windows differ from what the store has.
func (h *hotset) dirty() int { return len(h.changed) - h.head }

// tail is what written will be when all that have changed by now are written.
func (h *hotset) tail() uint64 { return h.written + uint64(h.dirty()) }

// oldest are the next windows to write.
func (h *hotset) oldest() []*keyed {
	return h.changed[h.head:min(h.head+h.chunk, len(h.changed))]
}

// wrote notes that the first windows of changed are written.
func (h *hotset) wrote(count int) {
	for i := range count {
		w := h.changed[h.head+i]
		h.changed[h.head+i] = nil
		w.dirty, w.index = false, indexKept
		if w.evicted {
			delete(h.leaving, w.name)
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

// writeBack writes the windows that have been changed for longest, a few hundred.
func (p *partition) writeBack(ctx context.Context) error {
	windows := p.windows.oldest()
	if len(windows) == 0 {
		return nil
	}
	p.changes, p.bytes = p.changes[:0], p.bytes[:0]
	for _, w := range windows {
		p.appendChanges(w)
	}
	if err := p.own.write(ctx, p.changes); err != nil {
		return fmt.Errorf("writing windows back: %w", err)
	}
	p.windows.wrote(len(windows))
	p.breathed = p.counted
	return nil
}

func (p *partition) appendChanges(w *keyed) {
	begin := len(p.bytes)
	p.bytes = append(p.bytes, w.name...)
	name := p.bytes[begin:len(p.bytes):len(p.bytes)]
	begin = len(p.bytes)
	p.bytes = appendRecord(p.bytes, w.generation, w.offset, w.verdict)
	p.bytes = w.rule.policy.Append(p.bytes, &w.state)
	p.changes = append(p.changes, store.Change{Space: store.Windows, Key: name, Value: p.bytes[begin:len(p.bytes):len(p.bytes)]})
	switch w.index {
	case indexSet:
		p.changes = append(p.changes, store.Change{Space: store.Index, Key: name, Value: []byte{recordVersion}})
	case indexDeleted:
		p.changes = append(p.changes, store.Change{Space: store.Index, Key: name})
	}
}

// load reads all windows that are wanted. Until all are read none is in memory: a window that is there counts at once,
// and would pass over the hits of it that wait. What was read when the store went away is not read again.
func (p *partition) load(ctx context.Context) error {
	h := p.windows
	for len(h.read) < len(h.wanted) {
		rest := h.wanted[len(h.read):]
		some := rest[:min(readKeys, len(rest))]
		p.names = p.names[:0]
		for _, w := range some {
			p.names = append(p.names, []byte(w.name))
		}
		values, err := p.own.read(ctx, store.Windows, p.names)
		if err != nil {
			return fmt.Errorf("reading windows: %w", err)
		}
		p.metrics.lookups.cold.Add(float64(len(some)))
		h.read = append(h.read, values...)
	}
	for i, w := range h.wanted {
		if err := p.fill(w, h.read[i]); err != nil {
			return err
		}
		delete(h.unloaded, w.name)
		h.add(w)
	}
	h.wanted, h.read = nil, nil
	return nil
}

// fill gives a window what the store has of it.
func (p *partition) fill(w *keyed, value []byte) error {
	w.loaded, w.generation, w.offset = true, 0, -1
	if value == nil {
		return nil
	}
	record, err := ReadRecord(value)
	if err == nil {
		err = w.rule.policy.Read(record.State, &w.state)
	}
	if isNewer(err) {
		return stopped{fmt.Errorf("the window of %q: %w", w.name, err)}
	}
	if err != nil { // what it was nobody can say any more; to begin anew blocks nobody who kept the limit
		p.faults.Note("damaged window", fmt.Errorf("the window of %q begins anew: %w", w.name, err))
		w.state = window.State{}
		return nil
	}
	w.generation, w.offset, w.verdict = record.Generation, record.Offset, record.Verdict
	return nil
}
