package aggregator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"weir/internal/store"
	"weir/pkg/aggregator/windows"
	"weir/pkg/request"
	"weir/pkg/window"
)

const (
	sweepPairs  = 256
	sweepEvery  = 200 * time.Millisecond // between pages
	sweepRests  = 10 * time.Minute       // between two sweeps
	endingsKept = 24 * time.Hour         // that an entry was ended is remembered for, while it would have lasted
)

// A sweep goes through the store, slowly, and deletes what is clear: windows that answer every hit as if they had never
// been, by the partition's own time.
type sweep struct {
	cursor store.Cursor
	next   time.Time
}

func (p *partition) sweepOn(ctx context.Context, _ bool) error {
	now := p.config.Now()
	s := &p.sweep
	if s.next.IsZero() {
		s.next = now.Add(sweepRests / 10)
	}
	if p.storeRests() || len(p.waiting) > 0 || now.Before(s.next) {
		return nil
	}

	page, err := p.own.Scan(ctx, store.Windows, s.cursor, sweepPairs)
	if err != nil {
		return fmt.Errorf("sweeping: %w", err)
	}

	var changes []store.Change
	for _, pair := range page.Pairs {
		clear, err := p.isClear(pair, now.UnixMilli())
		if err != nil {
			return err
		}
		if clear {
			changes = append(changes, store.Change{Space: store.Windows, Key: pair.Key})
		}
	}

	if len(changes) > 0 {
		if err := p.own.Write(ctx, changes); err != nil {
			return fmt.Errorf("sweeping: %w", err)
		}
		p.metrics.swept.Add(float64(len(changes)))
	}

	s.cursor, s.next = page.Next, now.Add(sweepEvery)
	if page.Next == "" {
		s.next = now.Add(sweepRests)
	}
	return nil
}

// isClear says whether a stored window can be forgotten. One whose hits would be read again after a crash cannot.
func (p *partition) isClear(pair store.Pair, now int64) (bool, error) {
	if p.windows.Has(request.Text(pair.Key)) {
		return false, nil
	}
	record, err := windows.ReadRecord(pair.Value)
	if windows.IsNewer(err) {
		return false, stopped{err}
	}
	if err != nil { // the next hit of the key reports it
		return false, nil //nolint:nilerr // and it stays until then
	}
	if !(record.Generation < p.stored.Generation || record.Offset < p.stored.Offset) {
		return false, nil
	}
	if v := record.Verdict; v != nil && v.Ended != 0 && v.Until > now && now-v.Ended < endingsKept.Milliseconds() {
		return false, nil
	}

	ruleName, _, _ := strings.Cut(request.Text(pair.Key), "/")
	rule := p.rules.named(ruleName)
	if rule == nil {
		return record.Verdict == nil || !record.Verdict.Live(now), nil
	}

	var state window.State
	if err := rule.Policy.Read(record.State, &state); err != nil {
		return false, nil //nolint:nilerr // the next hit of the key reports it
	}

	reached := min(p.reached, now) // where a collector's clock is ahead, its hits do not make those of others old
	return rule.Policy.Clear(&state) <= reached-p.config.Late.Milliseconds(), nil
}
