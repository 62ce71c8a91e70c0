package publishing

import (
	"encoding/binary"
	"fmt"

	"weir/internal/store"
	"weir/internal/topic"
	"weir/internal/varint"
	"weir/pkg/aggregator/windows"
)

// NoteKey is where the store has the note of a partition's last walk, in the space Notes.
const NoteKey = "list"

// TopicKey is where the store has in which topic the list of that note is, in the space Notes.
const TopicKey = "list.topic"

const noteVersion = 1

const unknown = -1

// A note is what is kept of a partition's last walk. Its bytes:
//
//	version  1 byte   1
//	since    u        plus one; 0 for none
//	modes    u        a hash of the rules' names and modes; 0 where entries may have several
//	walked   u        when the walk began, Unix ms
//	list     the rest
type note struct {
	list   string         // the list's id
	topic  topic.Identity // that it is in, in a note of its own; empty where it is unknown
	since  int64          // every live entry was published at this offset of the blocklist or later
	modes  uint64
	walked int64
}

func (n note) append(b []byte) []byte {
	b = append(b, noteVersion)
	b = binary.AppendUvarint(b, uint64(n.since+1))
	b = binary.AppendUvarint(b, n.modes)
	b = binary.AppendUvarint(b, uint64(n.walked))
	return append(b, n.list...)
}

// changes are what the store has to learn of it.
func (n note) changes() []store.Change {
	in := windows.TopicNote{Of: n.list, Topic: string(n.topic)}
	return []store.Change{{Space: store.Notes, Key: []byte(NoteKey), Value: n.append(nil)},
		{Space: store.Notes, Key: []byte(TopicKey), Value: in.Append(nil)}}
}

// readNote reads what append wrote. A damaged note is as good as none.
func readNote(value []byte) (note, error) {
	none := note{since: unknown}
	if value == nil {
		return none, nil
	}
	if windows.LaterVersion(value, noteVersion) {
		return none, fmt.Errorf("the note of the list: %w: version %d", windows.ErrNewer, value[0])
	}

	c := varint.Reader{Left: value}
	c.Want(noteVersion)
	n := note{since: c.Number() - 1}
	n.modes, n.walked, n.list = c.Unsigned(), c.Number(), string(c.Left)
	if c.Failed {
		return none, nil
	}
	return n, nil
}

// complete reports whether all live entries are published on a list.
func (n note) complete(list string) bool { return n.since != unknown && n.list == list }
