package publishing

import (
	"log/slog"
	"sync"
	"time"

	"weir/pkg/aggregator/windows"
	"weir/pkg/rule"
)

const sayGuardedEvery = time.Minute

// A guardLog says, once a minute for each bound of a rule's guard, how many blocks it has kept from being enforced.
type guardLog struct {
	mu     sync.Mutex
	bounds map[guardBound]*guardedBlocks
}

// A guardBound is one of a rule's guard.
type guardBound struct {
	rule   string
	exceed windows.Beyond
}

// guardedBlocks are those beyond a bound that the log does not have yet.
type guardedBlocks struct {
	blocks int64
	guard  rule.Guard
	group  bool      // of a group rule
	next   time.Time // they may be logged then
}

// guarded notes a block that the guard of its rule keeps from being enforced.
func (l *List) guarded(rule *windows.Rule, by windows.Beyond, now time.Time) {
	l.config.Guarded(rule, by)
	l.guards.note(guardBound{rule.Name, by}, rule.Spec)
	l.guards.say(l.config.Logger, now)
}

func (l *guardLog) note(bound guardBound, of *rule.Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bounds == nil {
		l.bounds = map[guardBound]*guardedBlocks{}
	}
	if l.bounds[bound] == nil {
		l.bounds[bound] = &guardedBlocks{}
	}
	l.bounds[bound].blocks++
	l.bounds[bound].guard, l.bounds[bound].group = of.Guard, of.CountsBlocks()
}

// say logs what is due.
func (l *guardLog) say(logger *slog.Logger, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for bound, g := range l.bounds {
		if now.Before(g.next) {
			continue
		}
		if g.blocks == 0 {
			delete(l.bounds, bound)
			continue
		}
		confirm := "weir guard confirm " + bound.rule + " --why …"
		switch {
		case bound.exceed == windows.MostShare && g.group:
			logger.Warn("the rule blocks networks that sent a larger share of the last hour's requests than its guard lets through: these blocks are shown and not enforced",
				"rule", bound.rule, "blocks", g.blocks, "most_share", g.guard.ShareText(), "confirm", confirm)
		case bound.exceed == windows.MostShare:
			logger.Warn("the rule has newly blocked a larger share of a minute's keys than its guard lets through: these blocks are shown and not enforced",
				"rule", bound.rule, "blocks", g.blocks, "most_share", g.guard.ShareText(), "confirm", confirm)
		default:
			logger.Warn("the rule has more new blocks in a minute than its guard lets through: these are shown and not enforced",
				"rule", bound.rule, "blocks", g.blocks, "most_new_per_minute", g.guard.MostNew, "confirm", confirm)
		}
		g.blocks, g.next = 0, now.Add(sayGuardedEvery)
	}
}
