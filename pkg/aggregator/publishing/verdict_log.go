package publishing

import (
	"log/slog"
	"sync"
	"time"

	"weir/pkg/aggregator/windows"
	"weir/pkg/blocklist"
)

const (
	linesPerSecond = 100
	sourcesWatched = 1000
	sayOverEvery   = time.Minute
)

// A verdictLog says each verdict, and above 100 a second only their number; and which sources send what is over.
type verdictLog struct {
	mu      sync.Mutex
	second  int64
	said    int
	unsaid  int
	sources map[string]*judged
	since   time.Time
}

// judged is how many verdicts of a source there were since it was last looked at.
type judged struct{ over, live int }

func (l *verdictLog) verdict(logger *slog.Logger, now time.Time, event string, w *windows.Window, v *windows.Verdict) {
	l.mu.Lock()
	unsaid := 0
	if now.Unix() != l.second {
		unsaid, l.second, l.said, l.unsaid = l.unsaid, now.Unix(), 0, 0
	}

	l.said++
	quiet := l.said > linesPerSecond
	if quiet {
		l.unsaid++
	}

	l.mu.Unlock()
	if unsaid > 0 {
		logger.Info("more verdicts", "number", unsaid)
	}
	if quiet {
		return
	}

	if v.HeldBack(w.Rule) {
		logger = logger.With("guarded", true, "guarded_by", blocklist.GuardedBy(v.Guarded == windows.MostShare))
	}
	logger.Info(event, "rule", w.Rule.Name, "key", w.Key(), "limit", v.Limit, "count", v.Count, "level", v.Level,
		"from", time.UnixMilli(v.From).UTC(), "until", until(v.Until), "mode", w.Rule.ModeOf(v))
}

func until(at int64) any {
	if at == blocklist.Never {
		return "forever"
	}
	return time.UnixMilli(at).UTC()
}

// judge notes a verdict of a source: one that is live, or was over before it could be published.
func (l *verdictLog) judge(source string, live bool) {
	if source == "" { // no hit decided it
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.sources[source]
	if j == nil {
		if len(l.sources) >= sourcesWatched {
			return
		}
		if l.sources == nil {
			l.sources = map[string]*judged{}
		}
		j = &judged{}
		l.sources[source] = j
	}

	if live {
		j.live++
	} else {
		j.over++
	}
}

// sayOver says, once a minute, which sources sent nothing but what was over.
func (l *verdictLog) sayOver(logger *slog.Logger, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() {
		l.since = now
	}
	if now.Sub(l.since) < sayOverEvery {
		return
	}

	for source, j := range l.sources {
		if j.over > 0 && j.live == 0 {
			logger.Warn("all blocks that a source's requests led to were over already: a backlog, or its clock or time zone is wrong", "source", source, "verdicts", j.over)
		}
	}

	l.sources, l.since = nil, now
}
