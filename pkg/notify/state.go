package notify

import (
	"encoding/json"
	"time"
)

// A begun is what the metadata of a commit have of a round whose messages are being sent.
type begun struct {
	End  int64    `json:"end,omitempty"`  // the offset after the last event of the round
	At   int64    `json:"at,omitempty"`   // Unix ms at which its messages were made
	Room int      `json:"room,omitempty"` // for messages, at that time
	Sent []string `json:"sent,omitempty"` // the ids of messages that were sent, shortened

	Resolved int64 `json:"resolved,omitempty"` // Unix ms: incidents that ended by then are resolved
}

// shortID is how many digits of a message's id are kept in a commit: of at most maxSent messages, so that the metadata
// have less than 4 KiB.
const (
	shortID = 16
	maxSent = 150
)

func (b *begun) has(m *Message) bool {
	for _, id := range b.Sent {
		if id == m.ID[:shortID] {
			return true
		}
	}
	return false
}

// done notes that a message was sent, or dropped. Of more than maxSent only the last are known.
func (b *begun) done(m *Message) {
	b.Sent = append(b.Sent, m.ID[:shortID])
	b.Sent = b.Sent[max(0, len(b.Sent)-maxSent):]
}

// metadata returns the metadata of a commit; b is nil when no round has begun.
func (b *begun) metadata(resolved int64) string {
	if b == nil && resolved == 0 {
		return ""
	}
	var all begun
	if b != nil {
		all = *b
	}
	all.Resolved = resolved
	text, _ := json.Marshal(all) // numbers and digits can always be encoded
	return string(text)
}

// readBegun reads the metadata of a commit at an offset. The round is nil when none has begun there.
func readBegun(metadata string, offset int64) (b *begun, resolved int64) {
	b = &begun{}
	if err := json.Unmarshal([]byte(metadata), b); err != nil {
		return nil, 0
	}
	if b.End <= offset || b.Room < 1 {
		return nil, b.Resolved
	}
	return b, b.Resolved
}

func (b *begun) at() time.Time { return time.UnixMilli(b.At) }
