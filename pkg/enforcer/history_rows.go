package enforcer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/pkg/attempts"
	"weir/pkg/inline"
	"weir/pkg/inline/stored"
)

// historyRows write attempts to the history of a shared store. The commit that counts an attempt has written its row;
// these are the others: refused, or answered without the store. Requests put rows into a queue and never
// wait: while it is full, rows are lost and counted. A goroutine adds them, several at once, and again after an error:
// the history has each once.
type historyRows struct {
	to      stored.History
	queue   chan stored.Attempt
	held    atomic.Int64 // bytes in the queue
	lost    atomic.Int64
	dropped prometheus.Counter
	faults  *telemetry.Faults
	batch   []stored.Attempt // run owns it
}

const (
	rowsRetry = time.Second
	rowsEnd   = 5 * time.Second // at the end, to write what is in the queue
	rowBytes  = 128             // of a row without its texts
)

// newHistoryRows returns nil when the store has no history.
func newHistoryRows(c *Config, faults *telemetry.Faults) *historyRows {
	if c.InlineStore == nil || c.InlineStore.History == nil {
		return nil
	}
	h := &historyRows{to: c.InlineStore.History, queue: make(chan stored.Attempt, historyLines), faults: faults}
	h.dropped = prometheus.NewCounter(prometheus.CounterOpts{Name: "unused"})
	if c.Metrics != nil {
		telemetry.Queue(c.Metrics, "history", historyBytes, func() float64 { return float64(h.held.Load()) })
		h.dropped = telemetry.Dropped(c.Metrics, "history")
	}
	return h
}

// attempted adds the rows of an attempt that no commit has written.
func (h *historyRows) attempted(r *ruling, t *attempt) {
	v := &t.verdict
	id := v.Attempt
	for j := range t.wants {
		w, taken, verdict := &t.wants[j], &v.Taken[j], verdictOf(r, t, j)
		if verdict == attempts.Admitted && w.Cost > 0 && v.OnError == inline.Answered {
			continue
		}
		if id == (inline.ID{}) {
			id = inline.NewID(taken.At)
		}
		row := stored.Attempt{ID: id, Rule: w.Rule.Name, Key: string(w.Key), Part: t.part(j), At: taken.At, Cost: w.Cost, Verdict: verdict}
		if t.knowsLimit(j) {
			row.Limit, row.Remaining = r.limits[t.rules[j]].policies[taken.Limit].limit, taken.Remaining
		}
		if v.OnError != inline.Answered {
			row.Store = v.OnError.String()
		}
		h.put(row)
	}
}

// part is how often a rule was asked about a key before, by the same attempt.
func (t *attempt) part(j int) (n int) {
	for i := range j {
		if t.rules[i] == t.rules[j] && string(t.wants[i].Key) == string(t.wants[j].Key) {
			n++
		}
	}
	return n
}

func sizeOf(a *stored.Attempt) int64 {
	return int64(rowBytes + len(a.Rule) + len(a.Key) + len(a.Limit))
}

func (h *historyRows) put(row stored.Attempt) {
	size := sizeOf(&row)
	if h.held.Add(size) <= historyBytes {
		select {
		case h.queue <- row:
			return
		default:
		}
	}
	h.held.Add(-size)
	h.lose(1)
}

func (h *historyRows) lose(n int) {
	h.lost.Add(int64(n))
	h.dropped.Add(float64(n))
}

// run adds rows until the context is done, and then those that are in the queue.
func (h *historyRows) run(ctx context.Context) {
	if h == nil {
		return
	}
	for {
		select {
		case row := <-h.queue:
			if len(h.queue) < historyBatch {
				sleep.For(ctx, historyPause)
			}
			h.gather(row)
			h.write(ctx)
		case <-ctx.Done():
			h.end(ctx)
			return
		}
		if n := h.lost.Swap(0); n > 0 {
			h.faults.Note("history", fmt.Errorf("%d attempts are missing in the history of the store of inline rules: more came than could be written", n))
		}
	}
}

// gather makes a batch of a row and those that wait behind it.
func (h *historyRows) gather(row stored.Attempt) {
	h.batch = h.batch[:0]
	for {
		h.held.Add(-sizeOf(&row))
		if h.batch = append(h.batch, row); len(h.batch) == historyBatch || len(h.queue) == 0 {
			return
		}
		row = <-h.queue
	}
}

// write writes the batch. It tries as long as the context lasts and there is room for further rows; then the batch is
// lost, so that one that cannot be written does not hold up all that come later.
func (h *historyRows) write(ctx context.Context) {
	for {
		err := h.to.Add(ctx, h.batch)
		if err == nil {
			h.batch = h.batch[:0]
			h.faults.Over("history rows")
			return
		}
		if ctx.Err() != nil { // end tries again
			return
		}
		h.faults.Note("history rows", fmt.Errorf("writing attempts to the history of the store of inline rules: %w", err))
		if len(h.queue) == cap(h.queue) || h.held.Load() > historyBytes-historyBytes/16 {
			h.lose(len(h.batch))
			h.batch = h.batch[:0]
			return
		}
		sleep.For(ctx, rowsRetry)
	}
}

// end writes the batch and what is in the queue, but not for long.
func (h *historyRows) end(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), rowsEnd)
	defer cancel()
	for {
		if len(h.batch) > 0 && h.to.Add(last, h.batch) != nil {
			h.lose(len(h.batch) + len(h.queue))
			break
		}
		if h.batch = h.batch[:0]; len(h.queue) == 0 {
			break
		}
		h.gather(<-h.queue)
	}
	if n := h.lost.Load(); n > 0 {
		h.faults.Note("history", fmt.Errorf("%d attempts are missing in the history of the store of inline rules at the end", n))
	}
}
