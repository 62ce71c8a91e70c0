package aggregator

import (
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
	Error      string     `json:"error,omitempty"`   // why it is not counted
	Problem    string     `json:"problem,omitempty"` // why hits of it are not counted

	// LagUnknownSince is since when Lag is only what it was; left out while it is known.
	LagUnknownSince *time.Time `json:"lag_unknown_since,omitempty"`
	seen            position.Lag
}

func (s *PartitionStatus) caughtUp() bool {
	return s.Lag == 0 && s.LagUnknownSince == nil && s.Waiting == 0 && s.Unsent == 0 && s.Error == ""
}

// instant is a time of requests; nil before the first.
func instant(unixMilli int64) *time.Time {
	if unixMilli <= 0 {
		return nil
	}
	return new(time.UnixMilli(unixMilli).UTC())
}
