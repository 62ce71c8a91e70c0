package pipeline

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/internal/keytext"
	"weir/internal/telemetry"
)

// mostTroubles bounds the problems of a source that are remembered and shown.
const mostTroubles = 8

// longestTrouble is how much of a problem is shown. It may have what a server or a sender sent.
const longestTrouble = 4 << 10

// Troubles are the present problems of a source: of each operation the last one.
type troubles struct {
	mu  sync.Mutex
	all []trouble // the last one stands last
}

// A trouble is a problem of an operation on a log, or on the source as such.
type trouble struct {
	log, operation string
	what           string
	at             time.Time
	passes         bool // nothing mends it: it is shown for incidentShown
}

const incidentShown = time.Hour

// note puts a problem in the place of the one before of the same operation. With too many the oldest is forgotten.
func (t *troubles) note(one trouble) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one.what = keytext.Beginning(telemetry.Hide(one.what), longestTrouble)
	t.all = slices.DeleteFunc(t.all, func(o trouble) bool { return o.log == one.log && o.operation == one.operation })
	t.all = append(t.all, one)
	t.all = slices.Delete(t.all, 0, max(0, len(t.all)-mostTroubles))
}

// over forgets the problem of an operation, and reports whether there was one.
func (t *troubles) over(log, operation string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.all)
	t.all = slices.DeleteFunc(t.all, func(o trouble) bool { return o.log == log && o.operation == operation })
	return len(t.all) < before
}

// texts are the problems that are present at a time, the last one first.
func (t *troubles) texts(now time.Time) (texts []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(o trouble) bool { return o.passes && now.Sub(o.at) > incidentShown })
	for _, one := range slices.Backward(t.all) {
		texts = append(texts, fmt.Sprintf("%s (%s)", one.what, one.at.UTC().Format(time.RFC3339)))
	}
	return texts
}
