package enforcer

import (
	"bytes"
	"io"
	"sync"

	"weir/pkg/blocklist"
)

// A delta is the last answer to a follower, for other followers with the same request: most of them have it, at the
// same time.
type delta struct {
	mu     sync.Mutex
	after  blocklist.Version
	state  blocklist.State
	local  string
	most   int
	answer []byte // nil before the first
}

// maxDelta is how many bytes of an answer are kept.
const maxDelta = 1 << 20

// write writes the changes after a version, at most so many, in the binary form. The answer itself contains the version that it follows,
// so it stays correct when it is made a moment later than the state and orders that were checked.
func (d *delta) write(to io.Writer, set *blocklist.Set, after blocklist.Version, now int64, most int) error {
	if _, _, known := set.Changes(after, 1); !known {
		return set.WriteAfter(to, after, now)
	}
	answer, err := d.of(set, after, now, most)
	if err != nil {
		return err
	}
	_, err = to.Write(answer)
	return err
}

func (d *delta) of(set *blocklist.Set, after blocklist.Version, now int64, most int) ([]byte, error) {
	state, local := set.State(), set.Local()
	d.mu.Lock()
	defer d.mu.Unlock()
	// The lock is held while the answer is made, so followers that come together wait for one answer and do not make
	// one each.
	if d.answer != nil && d.after == after && d.state == state && d.local == local && d.most == most {
		return d.answer, nil
	}

	var made bytes.Buffer
	if err := set.WriteSome(&made, after, now, most); err != nil {
		return nil, err
	}
	if made.Len() <= maxDelta {
		d.after = after
		d.state = state
		d.local = local
		d.most = most
		d.answer = made.Bytes()
	}

	return made.Bytes(), nil
}
