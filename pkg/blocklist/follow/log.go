package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/pkg/blocklist"
)

// A Log is the topic blocklist. One goroutine uses it.
type Log interface {
	// Read returns the next records, valid until the next call. It waits a while for one, and returns none when there
	// is none. After ErrTrimmed and ErrPastEnd Next stays. After any other error the call can be repeated at once: Read
	// has already waited.
	Read(ctx context.Context) ([]blocklist.Change, error)
	// Next is the offset that the next Read begins at, and SetNext changes it.
	Next() int64
	SetNext(offset int64)
	// Span returns the extent of the log at the last answer, including answers with an error: from start up to, and not
	// including, end.
	Span() (start, end int64)
}

var (
	// ErrTrimmed reports that a log begins after the wanted offset.
	ErrTrimmed = errors.New("the log begins later")
	// ErrPastEnd reports that a log ends before the wanted offset.
	ErrPastEnd = errors.New("the log ends earlier")
)

// A logSource follows a log.
type logSource struct {
	*Follower
	log    Log
	pass   pass
	demand *blocklist.ListID // only a greater epoch than this one's takes the list's place

	awaiting time.Time // since when marks are missing; zero: they are not
}

// A pass is one pass over the log from its start.
type pass struct {
	filling *blocklist.Filling // nil once its list is active
	began   int64              // the offset of its first Read
	end     int64              // the end of the log at that time; -1 before
	marks   marks
}

func (l *logSource) run(ctx context.Context) {
	l.begin(l.log.Next())
	for ctx.Err() == nil {
		l.once(ctx)
	}
}

// once reads the log once.
func (l *logSource) once(ctx context.Context) {
	changes, err := l.log.Read(ctx)
	start, end := l.log.Span()
	switch {
	case ctx.Err() != nil:
	case l.clockWentBack():
		l.begin(start)
	case errors.Is(err, ErrTrimmed):
		l.config.Logger.Info("blocklist: the log no longer has the next records; reading it from its start", "error", err)
		l.begin(start)
	case errors.Is(err, ErrPastEnd):
		l.wentBack(err)
		l.begin(start)
	case err != nil:
		l.trouble("log", err)
	default:
		l.apply(changes, end)
	}
}

// begin starts a new list from an offset.
func (l *logSource) begin(offset int64) {
	l.log.SetNext(offset)
	l.pass = pass{filling: l.config.Set.Fill(), began: offset, end: -1, marks: marks{}}
	l.pass.filling.Forgets = l.config.Forgets
	l.Follower.filling(true)
}

// wentBack records that the log was created again or has lost records.
func (l *logSource) wentBack(err error) {
	held := l.config.Set.Version().List
	if l.demand == nil && l.config.Set.Whole() {
		l.demand = &held
	}
	l.trouble("log", fmt.Errorf("the log went back; %v stays until a list of a greater epoch is complete: %w", held, err))
}

func (l *logSource) apply(changes []blocklist.Change, end int64) {
	r := &l.pass
	// A log that ends before the last record of the list was created again, or has lost records. Then only a list of a
	// greater epoch may replace it.
	if r.end < 0 {
		r.end = end
		if held := l.config.Set.Version(); l.demand == nil && l.config.Set.Whole() && end <= held.Offset {
			l.demand = &held.List
		}
	}

	now := l.now()
	if r.filling != nil {
		l.unread(r.filling.Apply(now, changes...))
		// While the new list is read the old one decides, so it gets new records too.
		if l.config.Set.Whole() {
			l.ahead(now, changes)
		}
	} else {
		l.unread(l.config.Set.Apply(now, changes...))
	}

	// Watermarks come last: they vouch for records that are applied by now.
	for _, change := range changes {
		r.marks.add(change)
	}
	if r.filling != nil {
		l.swapIfWhole(now)
		return
	}

	l.reach()
}

// ahead applies new records of the log to the old list too, because that list may stay for long.
func (l *logSource) ahead(now int64, changes []blocklist.Change) {
	for i := range changes {
		if changes[i].Offset >= l.pass.end {
			l.config.Set.Ahead(now, changes[i:]...)
			return
		}
	}
}

// swapIfWhole makes the new list active when it is complete.
func (l *logSource) swapIfWhole(now int64) {
	r := &l.pass
	// Watermarks vouch for what was published, not for what was read: the log as it was at the start has to be read
	// first.
	if l.log.Next() < r.end {
		return
	}

	list, asOf, missing := r.marks.complete(r.began)
	if missing != nil {
		l.logMissing(missing)
		return
	}

	// A log that lost records may still have the watermarks that vouch for them.
	if l.demand != nil && list.Name == l.demand.Name && list.Epoch <= l.demand.Epoch {
		l.trouble("whole", fmt.Errorf("the log went back, and its watermarks still belong to %v; %v stays until a list of a greater epoch is complete", list, l.config.Set.Version().List))
		return
	}

	// After a restart there is no demand, but the list from the file knows its epoch.
	if held := l.config.Set.Version().List; list.Name == held.Name && list.Epoch < held.Epoch {
		l.trouble("whole", fmt.Errorf("the log's watermarks belong to %v, which is older than the current list %v", list, held))
		return
	}

	l.demand = nil
	r.filling.Swap(blocklist.State{Version: blocklist.Version{List: list, Offset: r.filling.Last}, Whole: true, AsOf: asOf}, now)
	r.filling, l.awaiting = nil, time.Time{}
	l.Follower.filling(false)
	l.well("whole")
	l.config.Logger.Info("blocklist: the list is complete", "version", l.config.Set.Version().String())
}

// marksPatience is how long watermarks may be missing before that is an error. Aggregators that were just started write
// the watermarks of their partitions one after the other, and each of them every 10 s.
const marksPatience = 30 * time.Second

// logMissing reports what a new list lacks: once at first, and as an error when it lasts.
func (l *logSource) logMissing(missing error) {
	now := l.config.Now()
	if l.awaiting.IsZero() {
		l.awaiting = now
		l.config.Logger.Info("blocklist: waiting until the list is complete", "missing", missing.Error())
	}
	if now.Sub(l.awaiting) >= marksPatience {
		l.trouble("whole", missing)
		return
	}
	l.note(missing)
}

// reach updates the list's time from the watermarks, or begins again when they belong to another list.
func (l *logSource) reach() {
	state := l.config.Set.State()
	list, asOf, missing := l.pass.marks.complete(l.pass.began)
	believed := l.pass.marks.believed()
	switch {
	case believed.Compare(state.Version.List) > 0:
		l.config.Logger.Info("blocklist: another list has begun; reading it", "list", believed.String())
		start, _ := l.log.Span()
		l.begin(start)
	// The list stays as it is: an incomplete set of watermarks is no reason to drop it.
	case missing != nil || list != state.Version.List:
		l.trouble("whole", fmt.Errorf("the watermarks belong to %v, but the current list is %v", believed, state.Version.List))
	default:
		state.AsOf = asOf
		l.config.Set.Reach(state)
		l.well("log")
	}
}
