package enforcer

import (
	"context"
	"time"

	"weir/pkg/blocklist"
)

// delayChanges is how many changes are read at once.
const delayChanges = 1024

// longestDelay is the greatest age of a new entry. Older ones are published again, or come with a list.
const longestDelay = time.Minute

// watchDelay measures how long entries after a version take from their decision until they are active here.
func (e *Enforcer) watchDelay(ctx context.Context, at blocklist.Version) {
	set := e.config.Set
	for {
		changed := set.Changed()
		changes, version, ok := set.Changes(at, delayChanges)
		if ok {
			e.measureDelays(changes, e.config.Now().UnixMilli())
		}

		// Where the changes are not known it goes on with the present version: entries that came with a list are not
		// measured.
		if at = version; ok && len(changes) == delayChanges {
			continue
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (e *Enforcer) measureDelays(changes []blocklist.Change, now int64) {
	for _, change := range changes {
		record, err := blocklist.DecodeRecord(change.Key, change.Value)
		if err != nil || record.Entry == nil || record.Entry.Ended != 0 {
			continue
		}
		if delay := time.Duration(now-record.Entry.Decided) * time.Millisecond; delay <= longestDelay {
			e.metrics.delay.Observe(max(0, delay.Seconds()))
		}
	}
}
