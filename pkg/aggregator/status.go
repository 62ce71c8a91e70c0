package aggregator

import (
	"cmp"
	"slices"
	"time"

	"weir/pkg/aggregator/position"
)

// A Status is how an aggregator stands, as JSON.
type Status struct {
	Rules      string            `json:"rules"`     // hash of the active ones
	CaughtUp   bool              `json:"caught_up"` // nothing waits in our partitions
	List       string            `json:"list"`      // the id of the list that is written
	Partitions []PartitionStatus `json:"partitions"`
}

// A PartitionStatus is how one of our partitions stands.
type PartitionStatus struct {
	Partition  int        `json:"partition"`
	Offset     int64      `json:"offset"` // the next to be counted
	Lag        int64      `json:"lag"`    // records behind it
	Generation int64      `json:"generation"`
	Fence      string     `json:"fence"`
	Reached    *time.Time `json:"reached"` // the newest request counted
	Hot        int        `json:"hot"`     // windows in memory
	Dirty      int        `json:"dirty"`   // of those, and of those on their way out, how many are not written
	Waiting    int        `json:"waiting"` // hits that wait for the store
	Unsent     int        `json:"unsent"`  // verdicts that Kafka has not acknowledged
	Checkpoint int64      `json:"checkpoint"`
	Written    *time.Time `json:"checkpoint_at"`
	Error      string     `json:"error,omitempty"` // why it is not counted

	// LagUnknownSince is since when Lag is only what it was; left out while it is known.
	LagUnknownSince *time.Time `json:"lag_unknown_since,omitempty"`
	seen            position.Lag
}

// Status may be called at any time.
func (a *Aggregator) Status() Status {
	s := Status{Rules: a.rules.Load().fingerprint, CaughtUp: !a.outside(), List: a.list.ID().String(), Partitions: []PartitionStatus{}}
	for _, one := range a.statuses() {
		if one == nil {
			s.CaughtUp = false // it is being taken
			continue
		}
		s.CaughtUp = s.CaughtUp && one.caughtUp()
		s.Partitions = append(s.Partitions, *one)
	}
	slices.SortFunc(s.Partitions, func(a, b PartitionStatus) int { return cmp.Compare(a.Partition, b.Partition) })
	return s
}

func (s *PartitionStatus) caughtUp() bool {
	return s.Lag == 0 && s.LagUnknownSince == nil && s.Waiting == 0 && s.Unsent == 0 && s.Error == ""
}

// show tells everyone how the partition stands.
func (p *partition) show() {
	at, lag := p.position.At(), p.position.Lag()
	stored, storedAt := p.saver.Stored()
	s := &PartitionStatus{Partition: p.number, Offset: at.Offset, Lag: lag.Records, Generation: at.Generation, Fence: p.own.Fence.String(),
		Reached: instant(p.reached), Hot: p.windows.Len(), Dirty: p.windows.Dirty(), Waiting: p.windows.Waiting(),
		Unsent: int(p.publisher.Sent() - p.publisher.Acknowledged()), Checkpoint: stored.Offset, Error: p.stopped, seen: lag}
	if !storedAt.IsZero() {
		at := storedAt.UTC()
		s.Written = &at
	}
	p.shown.Store(s)
	p.metrics.show(s)
}

// instant is a time of requests; nil before the first.
func instant(unixMilli int64) *time.Time {
	if unixMilli <= 0 {
		return nil
	}
	at := time.UnixMilli(unixMilli).UTC()
	return &at
}
