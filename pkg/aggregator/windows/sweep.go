package windows

import (
	"context"
	"fmt"
	"strings"
	"time"

	"weir/internal/store"
	"weir/pkg/request"
	"weir/pkg/window"
)

const (
	sweepEvery  = 200 * time.Millisecond // between pages
	sweepFirst  = 5 * time.Millisecond   // in a row, in the first sweep
	sweepPauses = 4                      // times as long as that
	sweepRests  = 10 * time.Minute       // between two sweeps
	endingsKept = 24 * time.Hour         // that an entry was ended is remembered for, while it would have lasted
)

// A Sweep goes through the store and deletes what is clear: windows that answer every hit as if they had never been, by
// the partition's own time. The names that it leaves are known then, so other windows need not be read. The first sweep
// takes up to a fifth of the time, so that they are known soon; later ones are slow.
type Sweep struct {
	Set   *Set
	Rules func(name string) *Rule // nil for one that is not known
	Late  time.Duration           // how late a hit may come

	cursor store.Cursor
	next   time.Time
}

// Walks reports whether a sweep is under way.
func (s *Sweep) Walks() bool { return s.cursor != "" }

// Turn looks at the next windows when it is time. Stored is the last checkpoint, and reached the newest counted time. It
// returns how many windows it deleted.
func (s *Sweep) Turn(ctx context.Context, now time.Time, stored *Checkpoint, reached int64) (deleted int, err error) {
	if now.Before(s.next) {
		return 0, nil
	}

	if s.cursor == "" {
		s.Set.own.known.begin(s.Set.size)
	}
	begun, isFirst := time.Now(), s.Set.own.known.all == nil
	for {
		pageDeleted, err := s.look(ctx, now, stored, reached)
		deleted += pageDeleted
		took := time.Since(begun)
		switch {
		case err != nil:
			return deleted, err
		case s.cursor == "":
			s.Set.own.known.end()
			s.next = now.Add(sweepRests)
			return deleted, nil
		case !isFirst:
			s.next = now.Add(sweepEvery)
			return deleted, nil
		case took >= sweepFirst:
			s.next = now.Add(min(sweepPauses*took, sweepEvery))
			return deleted, nil
		}
	}
}

// look looks at the next page.
func (s *Sweep) look(ctx context.Context, now time.Time, stored *Checkpoint, reached int64) (deleted int, err error) {
	page, err := s.nextPage(ctx)
	if err != nil {
		return 0, fmt.Errorf("sweeping: %w", err)
	}

	var changes []store.Change
	for _, pair := range page.Pairs {
		clear, err := s.isClear(pair, now.UnixMilli(), stored, reached)
		if err != nil {
			return 0, err
		}
		if clear {
			changes = append(changes, store.Change{Space: store.Windows, Key: pair.Key})
		} else {
			s.Set.own.known.add(pair.Key)
		}
	}

	if len(changes) > 0 {
		if err := s.Set.own.Write(ctx, changes); err != nil {
			return 0, fmt.Errorf("sweeping: %w", err)
		}
	}

	s.cursor = page.Next
	return len(changes), nil
}

// nextPage is the next one with windows, or the last. So an empty store is known at once.
func (s *Sweep) nextPage(ctx context.Context) (store.Page, error) {
	for {
		page, err := s.Set.own.Scan(ctx, store.Windows, s.cursor, scanKeys)
		if err != nil || len(page.Pairs) > 0 || page.Next == "" {
			return page, err
		}
		s.cursor = page.Next
	}
}

// isClear reports whether a stored window can be forgotten. One whose hits would be read again after a crash cannot.
func (s *Sweep) isClear(pair store.Pair, now int64, stored *Checkpoint, reached int64) (bool, error) {
	if s.Set.Has(request.Text(pair.Key)) {
		return false, nil
	}
	record, err := ReadRecord(pair.Value)
	if IsNewer(err) {
		return false, err
	}
	if err != nil { // the next hit of the key reports it
		return false, nil //nolint:nilerr // and it stays until then
	}
	if !(record.Generation < stored.Generation || record.Offset < stored.Offset) {
		return false, nil
	}
	if v := record.Verdict; v != nil && v.Ended != 0 && v.Until > now && now-v.Ended < endingsKept.Milliseconds() {
		return false, nil
	}

	ruleName, _, _ := strings.Cut(request.Text(pair.Key), "/")
	rule := s.Rules(ruleName)
	if rule == nil {
		return record.Verdict == nil || !record.Verdict.Live(now), nil
	}

	if record.Verdict != nil && record.Verdict.Live(now) { // a guarded block lasts, though hits count again
		return false, nil
	}
	var state window.State
	if err := rule.Policy.Read(record.State, &state); err != nil {
		return false, nil //nolint:nilerr // the next hit of the key reports it
	}

	reached = min(reached, now) // where a collector's clock is ahead, its hits do not make those of others old
	return rule.Policy.Clear(&state) <= reached-s.Late.Milliseconds(), nil
}
