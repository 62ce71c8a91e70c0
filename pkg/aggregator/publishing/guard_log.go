package publishing

import (
	"log/slog"
	"sync"
	"time"

	"weir/pkg/aggregator/windows"
)

const sayGuardedEvery = time.Minute

// A guardLog says, once a minute for each rule, how many blocks its guard has kept from being enforced.
type guardLog struct {
	mu    sync.Mutex
	rules map[string]*guardedBlocks
}

// guardedBlocks are those of a rule that the log does not have yet.
type guardedBlocks struct {
	blocks, most int64
	next         time.Time // they may be logged then
}

// guarded notes a block that the guard of its rule keeps from being enforced.
func (l *List) guarded(rule *windows.Rule, now time.Time) {
	l.config.Guarded(rule)
	l.guards.note(rule.Name, rule.Spec.Guard.MostNew)
	l.guards.say(l.config.Logger, now)
}

func (l *guardLog) note(rule string, most int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rules == nil {
		l.rules = map[string]*guardedBlocks{}
	}
	if l.rules[rule] == nil {
		l.rules[rule] = &guardedBlocks{}
	}
	l.rules[rule].blocks++
	l.rules[rule].most = most
}

// say logs what is due.
func (l *guardLog) say(logger *slog.Logger, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rule, g := range l.rules {
		if now.Before(g.next) {
			continue
		}
		if g.blocks == 0 {
			delete(l.rules, rule)
			continue
		}
		logger.Warn("the rule has more new blocks in a minute than its guard lets through: these are shown and not enforced",
			"rule", rule, "blocks", g.blocks, "most_new_per_minute", g.most, "confirm", "weir guard confirm "+rule+" --why …")
		g.blocks, g.next = 0, now.Add(sayGuardedEvery)
	}
}
