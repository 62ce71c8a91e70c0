package aggregator

import (
	"context"
	"errors"
	"time"

	"weir/internal/store"
)

// errShared ends the counting of a partition that another installation counts in the same place of the store. They would
// count their hits together, and take the partition from each other all the time.
var errShared = errors.New("another installation of Weir counts in the same store with the same kafka.prefix: give one of them another prefix, and start this part again")

// mostContests is how often within a minute a partition may be another owner's that the group has given to us.
const mostContests = 10

// contested counts how often another owner takes a partition that is ours by the group, and reports whether it goes on. A
// store that lost writes has no later fence than ours.
func (p *partition) contested(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, found, err := p.config.Store.Read(asking, p.number, store.Notes, nil)
	if err != nil || found.Epoch <= p.own.Fence.Epoch {
		return false
	}
	if now := p.config.Now(); now.Sub(p.contestedAt) > time.Minute {
		p.contests, p.contestedAt = 0, now
	}
	p.contests++
	return p.contests >= mostContests
}
