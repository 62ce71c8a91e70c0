package windows

// A Parcel is the hits of one batch for one window that could not be read: all or none of them are in the window.
type Parcel struct {
	Window *Window
	Offset int64
	Latest int64 // what is beyond is ahead of time
	Source string
	Of     uint64 // what the values of the hits are of; 0 where they have none
	Hits   []WaitingHit
}

// A WaitingHit is a hit, or with cost 0 the command to unblock.
type WaitingHit struct {
	UnixMilli, Cost int64
	Value           uint64
}

// Cost is how many hits these are.
func (p *Parcel) Cost() (sum int64) {
	for _, h := range p.Hits {
		sum += h.Cost
	}
	return sum
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
