package windows

import (
	"context"
	"encoding/binary"
	"fmt"

	"weir/internal/store"
	"weir/internal/varint"
)

const checkpointVersion = 1

// CheckpointKey is where the store has a partition's checkpoint, in the space Notes.
const CheckpointKey = "checkpoint"

// A Checkpoint says where to go on. It is as of a moment, and is written when all that had changed by then is. Its bytes:
//
//	version     1 byte  1
//	generation  u       of the log of hits
//	offset      u       in it, of the next hit
//	last        u       offset of the last record that was counted, plus one; 0 for none
//	checksum    8 bytes xxhash64 of that record, little endian
//	reached     u       the newest counted time, Unix ms
//	listed      u       an offset of the topic blocklist that was acknowledged, plus one; 0 for none
//	sources     the rest: their positions, as pkg/hit writes them
type Checkpoint struct {
	Generation, Offset int64
	Last               int64 // -1 for none
	Checksum           uint64
	Reached            int64
	Listed             int64 // -1 for none
	Sources            []byte
	Traffic            []byte // the Traffic, in a note of its own; nil for none
}

// Append appends the checkpoint's bytes.
func (c *Checkpoint) Append(b []byte) []byte {
	b = append(b, checkpointVersion)
	for _, number := range []int64{c.Generation, c.Offset, c.Last + 1} {
		b = binary.AppendUvarint(b, uint64(number))
	}
	b = binary.LittleEndian.AppendUint64(b, c.Checksum)
	b = binary.AppendUvarint(b, uint64(c.Reached))
	b = binary.AppendUvarint(b, uint64(c.Listed+1))
	return append(b, c.Sources...)
}

// ReadCheckpoint reads what Append wrote. Sources lie within value. The errors are ErrNewer and ErrDamaged.
func ReadCheckpoint(value []byte) (Checkpoint, error) {
	if LaterVersion(value, checkpointVersion) {
		return Checkpoint{}, fmt.Errorf("the checkpoint: %w: version %d, this program reads up to %d", ErrNewer, value[0], checkpointVersion)
	}
	c := varint.Reader{Left: value}
	c.Want(checkpointVersion)
	found := Checkpoint{Generation: c.Number(), Offset: c.Number(), Last: c.Number() - 1}
	if sum := c.Take(8); len(sum) == 8 {
		found.Checksum = binary.LittleEndian.Uint64(sum)
	}

	found.Reached, found.Listed, found.Sources = c.Number(), c.Number()-1, c.Left
	if c.Failed {
		return Checkpoint{}, fmt.Errorf("the checkpoint of %d bytes: %w", len(value), ErrDamaged)
	}
	return found, nil
}

// NewestGeneration is the newest that a window in the store is of; -1 for none.
func (o *Owned) NewestGeneration(ctx context.Context) (int64, error) {
	newest := int64(-1)
	for from, last := store.Cursor(""), false; !last; {
		page, err := o.Scan(ctx, store.Windows, from, scanKeys)
		if err != nil {
			return 0, err
		}
		for _, pair := range page.Pairs {
			if record, err := ReadRecord(pair.Value); err == nil {
				newest = max(newest, record.Generation)
			}
		}
		from, last = page.Next, page.Next == ""
	}
	return newest, nil
}
