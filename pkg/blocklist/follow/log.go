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
	// Topic returns which topic the log is, and whether it may be the one that it was before; both may be empty, where that
	// is not known. After an error it has waited, as Read.
	Topic(ctx context.Context, before string) (topic string, same bool, err error)
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
	topic   string             // that is read; empty where it is unknown
	asked   time.Time          // when the topic was last asked for; zero: never in this pass
	end     int64              // the end of the log at that time; -1 before
	lent    bool               // the current list has what was there up to the end
	lacks   int                // how many blocks of the current list the new one has not
	counted time.Time          // when these were counted
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
	case !l.identify(ctx, start):
	default:
		l.apply(changes, end)
	}
}

// identifyEvery is how often the log is asked which topic it is. A topic that was created again may have grown beyond our
// offset before anyone looks.
const identifyEvery = 10 * time.Second

// identify finds out whether the log is the topic of the list. It returns false when another topic has taken its place
// since this pass began: then a new pass has begun.
func (l *logSource) identify(ctx context.Context, start int64) bool {
	r, now := &l.pass, l.config.Now()
	if since := now.Sub(r.asked); !r.asked.IsZero() && since >= 0 && since < identifyEvery {
		return true
	}

	before, held := r.topic, l.config.Set.Version().List
	if r.asked.IsZero() && l.config.Set.Whole() {
		before = l.topics.of(held)
	}
	topic, same, err := l.log.Topic(ctx, before)
	switch {
	case err != nil:
		l.trouble("topic", err)
		if !r.asked.IsZero() {
			r.asked = now // the log can be read; it is asked for later
		}
		return true
	case same:
		l.faults.Over("topic")
		r.topic, r.asked = topic, now
		return true
	case !r.asked.IsZero():
		l.wentBack(fmt.Errorf("it is in the topic %s, and was in %s", topic, before))
		l.begin(start)
		return false
	}

	// The first answer in a pass: the list is from elsewhere.
	l.config.Logger.Warn("blocklist: the log is another topic than that of the current list, which stays until the new list is complete", "topic", topic, "before", before, "list", held.String())
	r.topic, r.asked = topic, now
	r.filling.Elsewhere = true
	if l.demand == nil {
		l.demand = &held
	}
	return true
}

// begin starts a new list from an offset.
func (l *logSource) begin(offset int64) {
	l.log.SetNext(offset)
	l.pass = pass{filling: l.config.Set.Fill(), began: offset, end: -1, marks: marks{}}
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
	if l.log.Next() < r.end || r.asked.IsZero() {
		return
	}

	// All of another topic is new to the current list, also what was there when this pass began.
	if r.filling.Elsewhere && !r.lent {
		r.filling.Lend(now)
		r.lent = true
	}

	list, asOf, missing := r.marks.complete(r.began)
	if missing != nil {
		l.logMissing(missing)
		return
	}

	// A log that lost records may still have the watermarks that vouch for them.
	if l.demand != nil && list.Name == l.demand.Name && list.Epoch <= l.demand.Epoch && !l.caughtUp(list, asOf, now) {
		l.trouble("whole", fmt.Errorf("the log went back, and its watermarks still belong to %v; %v stays until a list of a greater epoch is complete", list, l.config.Set.Version().List))
		return
	}

	// After a restart there is no demand, but the list from the file knows its epoch.
	if held := l.config.Set.Version().List; list.Name == held.Name && list.Epoch < held.Epoch {
		l.trouble("whole", fmt.Errorf("the log's watermarks belong to %v, which is older than the current list %v", list, held))
		return
	}

	state := blocklist.State{Version: blocklist.Version{List: list, Offset: r.filling.Last}, Whole: true, AsOf: asOf}
	if l.outlives(state, now) {
		return
	}

	l.demand = nil
	if err := l.topics.note(list, r.topic); err != nil {
		l.faults.Note("topics", err)
	}
	r.filling.Swap(state, now)
	r.filling, l.awaiting = nil, time.Time{}
	l.Follower.filling(false)
	l.well("whole")
	l.config.Logger.Info("blocklist: the list is complete", "version", l.config.Set.Version().String())
}

// caughtUp reports whether a log that lost its end has grown beyond it, with newer watermarks, and has the blocks of the
// current list. So it is when the aggregators had stored nothing of the end that was lost: then they have no reason to
// begin another list. A follower at the current list's last offset then gets a snapshot: the list that takes over keeps
// its newest record for followers, so that one has to come after the next offset.
func (l *logSource) caughtUp(list blocklist.ListID, asOf, now int64) bool {
	r, held := &l.pass, l.config.Set.State()
	if r.filling.Elsewhere || list != held.Version.List || r.filling.Last <= held.Version.Offset+1 || asOf <= held.AsOf {
		return false
	}
	if at := l.config.Now(); at.Sub(r.counted) >= identifyEvery || at.Before(r.counted) {
		r.counted, r.lacks = at, r.filling.Differs(now)
		r.filling.Back = r.lacks == 0
	}
	return r.filling.Back
}

// outlives reports whether the current list has blocks that the next one knows nothing of: its topic and the aggregators'
// store are both others. The current list stays until these have ended, with all that the new one has.
func (l *logSource) outlives(next blocklist.State, now int64) bool {
	r, held := &l.pass, l.config.Set.Version().List
	if !r.filling.Elsewhere || next.Version.List.Name == held.Name {
		return false
	}
	if at := l.config.Now(); at.Sub(r.counted) >= identifyEvery || at.Before(r.counted) {
		r.filling.KeepOrders(next, now)
		r.counted, r.lacks = at, r.filling.Lacks(now)
	}
	if r.lacks == 0 {
		return false
	}
	l.trouble("whole", fmt.Errorf("the topic and the aggregators' store are both others than those of %v: its %d blocks stay active until they end, together with those of %v; to end them now, stop the enforcer and remove %s",
		held, r.lacks, next.Version.List, l.config.File))
	return true
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
