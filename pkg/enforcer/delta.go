package enforcer

import (
	"bytes"
	"io"
	"sync"

	"weir/pkg/blocklist"
)

// A delta is the last answer to who follows, for the others who ask the same: most of them do, at once.
type delta struct {
	mu     sync.Mutex
	after  blocklist.Version
	state  blocklist.State
	local  string
	answer []byte // nil before the first
}

// maxDelta is how many bytes of an answer are kept.
const maxDelta = 1 << 20

// write writes what followed a version in the binary form. What it is asked for stands in the answer, so an answer that was
// made a moment later than the state and the orders that were looked at is no less true.
func (d *delta) write(to io.Writer, set *blocklist.Set, after blocklist.Version, now int64) error {
	if _, _, known := set.Changes(after, 1); !known {
		return set.WriteAfter(to, after, now)
	}
	answer, err := d.of(set, after, now)
	if err != nil {
		return err
	}
	_, err = to.Write(answer)
	return err
}

func (d *delta) of(set *blocklist.Set, after blocklist.Version, now int64) ([]byte, error) {
	state, local := set.State(), set.Local()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.answer != nil && d.after == after && d.state == state && d.local == local {
		return d.answer, nil
	}

	var made bytes.Buffer
	if err := set.WriteAfter(&made, after, now); err != nil {
		return nil, err
	}
	if made.Len() <= maxDelta {
		d.after, d.state, d.local, d.answer = after, state, local, made.Bytes()
	}

	return made.Bytes(), nil
}
