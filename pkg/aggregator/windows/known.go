package windows

import "github.com/bits-and-blooms/bloom/v3"

// Known are the names of windows that the store has, so that others need not be read: most keys of a log are new. Before a
// scan of the store has come to its end, it may have any. Names that are written meanwhile are noted too, so none is
// missing at that end. Each scan begins with none, because none can be taken out.
type known struct {
	all  *names // nil: it may have any
	scan *names // of the scan that is under way, or nil
}

// begin begins a scan. Names take a tenth of the memory of that many hot windows, at most.
func (k *known) begin(size int) {
	k.scan = &names{room: smallestLayer, most: 16 * size}
	if k.all != nil {
		k.scan.room = max(k.scan.room, k.all.count)
	}
}

// end says that the scan has come to its end.
func (k *known) end() { k.all, k.scan = k.scan, nil }

func (k *known) add(name []byte) {
	if k.all != nil {
		k.all.add(name)
	}
	if k.scan != nil {
		k.scan.add(name)
	}
}

// lacks reports whether the store has certainly no window of a name.
func (k *known) lacks(name []byte) bool { return k.all != nil && !k.all.has(name) }

const (
	smallestLayer = 1 << 14
	mistaken      = 0.01 // of the names that a layer does not have, when it is full
)

// Names are a set which may take a name for one of its own, and has all that were added. It grows by layers, each four
// times as large as the one before.
type names struct {
	layers []*bloom.BloomFilter
	room   int // of the next layer, or for how many more the last one has room
	count  int
	most   int // of more it has any
}

func (n *names) has(name []byte) bool {
	for _, layer := range n.layers {
		if layer.Test(name) {
			return true
		}
	}
	return n.count >= n.most
}

func (n *names) add(name []byte) {
	if n.has(name) {
		return
	}
	if len(n.layers) == 0 || n.room == 0 {
		n.room = min(max(n.room, 4*n.count), n.most-n.count)
		n.layers = append(n.layers, bloom.NewWithEstimates(uint(n.room), mistaken))
	}
	n.layers[len(n.layers)-1].Add(name)
	n.room--
	n.count++
}
