package aggregator

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"weir/internal/kafka"
	"weir/pkg/blocklist"
)

const markEvery = 10 * time.Second

// marking is when the next mark is due, and whether the last one has arrived.
type marking struct {
	next    time.Time
	arrived *atomic.Bool
}

// mark tells readers of the list how far the partition is counted. There is none while entries are missing on the list,
// nor while hits wait: readers see the list's age grow.
func (p *partition) mark(ctx context.Context, _ bool) error {
	now := p.config.Now()
	list := p.list.current()
	if now.Before(p.marked.next) || p.marked.arrived != nil && !p.marked.arrived.Load() || p.windows.Waiting() > 0 ||
		!p.position.Settled() || len(p.replay.touched) > 0 || !p.walk.whole(list.String()) {
		return nil
	}

	p.logged.sayOver(p.config.Logger, now)
	m := blocklist.Mark{List: list, Partition: p.number, Partitions: p.config.Partitions, Generation: p.position.At().Generation, Offset: p.position.At().Offset,
		Reached: p.reached, At: now.UnixMilli(), Since: p.walk.note.since}
	value, err := m.Append(nil)
	if err != nil {
		p.faults.Note("mark", err)
		return nil
	}

	arrived := &atomic.Bool{}
	message := kafka.Message{Key: m.RecordKey(), Value: value, Done: func(offset int64, err error) {
		arrived.Store(true)
		if err == nil {
			p.list.tell(offset)
		}
	}}

	if err := p.config.Blocklist.Send(ctx, message); err != nil {
		return fmt.Errorf("a mark: %w: %w", errSend, err)
	}
	p.marked = marking{now.Add(markEvery), arrived}
	return nil
}
