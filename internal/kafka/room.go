package kafka

import "context"

// LongRecords is the number of Readers of a Client that may have a long record in memory at a time, if they share room.
const LongRecords = 4

const longBytes = mostRecord + 16 // a record and its length

// newRoom returns the memory for LongRecords records. Each part of it is made when it is first needed.
func newRoom() chan []byte {
	room := make(chan []byte, LongRecords)
	for range LongRecords {
		room <- nil
	}
	return room
}

// NeedsRoom reports whether MakeRoom has to be called before the next Fetch: without room, Fetch returns no record.
func (r *Reader) NeedsRoom() bool { return r.needsRoom }

// MakeRoom waits until the Reader may have a long record in memory. GiveRoom gives the room back.
func (r *Reader) MakeRoom(ctx context.Context) error {
	if !r.needsRoom {
		return nil
	}

	select {
	case r.room = <-r.client.room:
		r.needsRoom, r.hasRoom = false, true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// GiveRoom lets another Reader have a long record. The records of the last Fetch are not valid any more.
func (r *Reader) GiveRoom() {
	if !r.hasRoom {
		return
	}
	r.unpacked, r.consumed = append([]byte(nil), r.unpacked[r.consumed:]...), 0
	clear(r.records)
	r.client.room <- r.room
	r.records, r.room, r.hasRoom = r.records[:0], nil, false
}

// memory returns room for some unpacked bytes.
func (r *Reader) memory(count int) []byte {
	if !r.hasRoom {
		return make([]byte, 0, max(count, smallestBytes))
	}
	if r.room == nil {
		r.room = make([]byte, longBytes)
	}
	return r.room[:0:count] // no more, because GiveRoom copies what is not read yet
}
