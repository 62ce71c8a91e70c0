package windows

import (
	"encoding/binary"

	"weir/internal/varint"
)

const topicNoteVersion = 1

// HitsTopicKey is where the store has in which topic a partition's hits are counted, in the space Notes.
const HitsTopicKey = "hits.topic"

// A TopicNote states which topic offsets belong to. It is true for what it is of, and says nothing of anything else: a
// program that does not know it may have gone on in another topic. Its bytes:
//
//	version  1 byte  1
//	of       text    a generation of the log of hits, or the list's id
//	topic    the rest
type TopicNote struct{ Of, Topic string }

// Append appends the note's bytes.
func (n TopicNote) Append(b []byte) []byte {
	b = append(b, topicNoteVersion)
	b = binary.AppendUvarint(b, uint64(len(n.Of)))
	b = append(b, n.Of...)
	return append(b, n.Topic...)
}

// ReadTopicNote reads what Append wrote, and returns the topic when the note is of that; otherwise nothing.
func ReadTopicNote(value []byte, of string) (topic string) {
	c := varint.Reader{Left: value}
	c.Want(topicNoteVersion)
	if found := c.Text(int64(len(value))); c.Failed || string(found) != of {
		return ""
	}
	return string(c.Left)
}
