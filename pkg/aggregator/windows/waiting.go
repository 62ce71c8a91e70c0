package windows

// A Parcel is the hits of one batch for one window that could not be read: all or none of them are in the window.
type Parcel struct {
	Window *Window
	Offset int64
	Latest int64 // what is beyond is ahead of time
	Passed int64 // the partition's time before the batch
	Source string
	Of     uint64 // what the values of the hits are of; 0 where they have none
	Hits   []WaitingHit
}

// A WaitingHit is a hit, or with cost 0 the command to unblock.
type WaitingHit struct {
	UnixMilli, Cost int64
	Value           uint64
}

// Requests is how many requests the hits are, for the metrics.
func (p *Parcel) Requests() (sum int64) {
	for _, h := range p.Hits {
		sum += Requests(p.Of, h.Cost)
	}
	return sum
}

// Requests is how many requests a hit is, by its cost and what its values are of. One with a value is one: where that is a
// member of a group, the cost is the id of a block.
func Requests(of uint64, cost int64) int64 {
	if of != 0 {
		return min(cost, 1)
	}
	return cost
}

// Wait has parcels wait, in their order, until the windows that are wanted are read.
func (h *Set) Wait(parcels []Parcel) {
	h.parcels = append(h.parcels, parcels...)
	for i := range parcels {
		h.waiting += len(parcels[i].Hits)
	}
}

// Waiting is how many hits wait.
func (h *Set) Waiting() int { return h.waiting }

// firstWaiting is the offset of the first hits that wait; -1 for none.
func (h *Set) firstWaiting() int64 {
	first := int64(-1)
	for i := range h.parcels {
		if at := h.parcels[i].Offset; first < 0 || at < first {
			first = at
		}
	}
	return first
}

// TakeWaiting takes the parcels that wait. All windows are read.
func (h *Set) TakeWaiting() []Parcel {
	parcels := h.parcels
	h.parcels, h.waiting = nil, 0
	return parcels
}
