package notify

import (
	"encoding/json"
	"time"
)

// A begun is what the metadata of a commit have of a round whose messages are being sent.
type begun struct {
	End  int64    `json:"end"`  // the offset after the last event of the round
	At   int64    `json:"at"`   // Unix ms at which its messages were made
	Room int      `json:"room"` // for messages, at that time
	Sent []string `json:"sent"` // the ids of messages that were sent, shortened
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

func (b *begun) metadata() string {
	if b == nil {
		return ""
	}
	text, _ := json.Marshal(b) // numbers and digits can always be encoded
	return string(text)
}

// readBegun reads the metadata of a commit at an offset; nil when no round has begun there.
func readBegun(metadata string, offset int64) *begun {
	b := &begun{}
	if err := json.Unmarshal([]byte(metadata), b); err != nil || b.End <= offset || b.Room < 1 {
		return nil
	}
	return b
}

func (b *begun) at() time.Time { return time.UnixMilli(b.At) }
