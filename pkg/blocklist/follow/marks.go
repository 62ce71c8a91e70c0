package follow

import (
	"cmp"
	"errors"
	"fmt"

	"weir/pkg/blocklist"
)

// marks are the last watermarks by partition.
type marks map[int]*blocklist.Mark

// add adds a record if it is a watermark. One of a lesser epoch, or of a former owner, changes nothing.
func (m marks) add(change blocklist.Change) {
	if len(change.Key) == 0 || change.Key[0] != '/' || change.Value == nil {
		return
	}
	record, err := blocklist.DecodeRecord(change.Key, change.Value)
	if err != nil || record.Mark == nil || record.Mark.Since > change.Offset {
		return
	}
	if old := m[record.Mark.Partition]; old == nil || later(old, record.Mark) {
		m[record.Mark.Partition] = record.Mark
	}
}

// later reports whether a watermark is not older than another one of its partition.
func later(old, mark *blocklist.Mark) bool {
	return cmp.Or(mark.List.Compare(old.List), cmp.Compare(mark.Generation, old.Generation), cmp.Compare(mark.Offset, old.Offset),
		cmp.Compare(mark.At, old.At)) >= 0
}

// believed returns the list with the greatest epoch, or zero without watermarks.
func (m marks) believed() blocklist.ListID {
	var greatest blocklist.ListID
	for _, mark := range m {
		if greatest.Name == "" || mark.List.Compare(greatest) > 0 {
			greatest = mark.List
		}
	}
	return greatest
}

var errNoMarks = errors.New("no aggregator has written a watermark to the blocklist yet")

// complete returns the list of the watermarks and the wall clock of the oldest. It returns an error when something is
// missing to complete a list that was read from the offset began.
func (m marks) complete(began int64) (list blocklist.ListID, asOf int64, missing error) {
	list = m.believed()
	partitions := 0
	for _, mark := range m {
		if mark.List == list {
			partitions = max(partitions, mark.Partitions)
		}
	}

	if partitions == 0 {
		return list, 0, errNoMarks
	}

	// Each partition has to vouch for its own entries. Since is where it began to publish all of them: before the first
	// record that was read, some may be missing.
	for partition := range partitions {
		mark := m[partition]
		switch {
		case mark == nil || mark.List != list:
			return list, 0, fmt.Errorf("partition %d of %d has no watermark of the list %v yet", partition, partitions, list)
		case mark.Partitions != partitions:
			return list, 0, fmt.Errorf("the watermark of partition %d counts %d partitions, others count %d", partition, mark.Partitions, partitions)
		case mark.Since < began:
			return list, 0, fmt.Errorf("partition %d published its entries from offset %d on, and the log begins at %d: waiting until they are published again", partition, mark.Since, began)
		}

		if partition == 0 || mark.At < asOf {
			asOf = mark.At
		}
	}

	return list, asOf, nil
}
