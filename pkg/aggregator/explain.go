package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/store"
	"weir/pkg/aggregator/windows"
	"weir/pkg/window"
)

// coldPatience is how long a question about a key waits for the store.
const coldPatience = time.Second

// errCold says that a window is not in memory.
var errCold = errors.New("the key is not in memory")

// A reading is what the store has of a window, nil where it has nothing.
type reading struct {
	value []byte
	err   error
}

// A keyStatus is what is known of a key.
type keyStatus struct {
	Rule      string        `json:"rule"`
	Key       string        `json:"key"`
	Partition int           `json:"partition"`
	Where     string        `json:"where"` // hot, cold, or none where nothing is remembered
	At        time.Time     `json:"at"`    // the time that the counts are of
	Newest    *time.Time    `json:"newest"`
	Limits    []limitStatus `json:"limits"`
	Block     *blockStatus  `json:"block"` // the last one, nil where there was none
}

type limitStatus struct {
	Limit    string     `json:"limit"`
	Count    int64      `json:"count"`
	All      int64      `json:"all,omitempty"`      // of a share: all hits; Count of them match
	Estimate bool       `json:"estimate,omitempty"` // the count is one
	Clears   *time.Time `json:"clears"`             // when the count is zero, if no further hit comes; nil when it is
}

type blockStatus struct {
	ID      string     `json:"id"`
	From    time.Time  `json:"from"`
	Until   *time.Time `json:"until"` // nil for ever
	Limit   string     `json:"limit"`
	Count   int64      `json:"count"`
	Level   int        `json:"level"`
	Blocked bool       `json:"blocked"` // it lasts
	Ended   *time.Time `json:"ended"`
}

// explain asks the partition's goroutine for a key. For one that is not in memory it waits for the store; the goroutine
// does not, and counts on.
func (p *partition) explain(ctx context.Context, ruleName, key string) (*keyStatus, error) {
	read := make(chan reading, 1)
	status, err := ask(ctx, p.asks, func(ctx context.Context) (*keyStatus, error) {
		status, err := p.keyStatus(ruleName, key, nil)
		if errors.Is(err, errCold) {
			p.readApart(ctx, ruleName+"/"+key, read)
		}
		return status, err
	})
	if !errors.Is(err, errCold) {
		return status, err
	}

	cold, err := awaitReading(ctx, read)
	if err != nil {
		return nil, fmt.Errorf("%w, and the store does not answer: %w", errCold, err)
	}
	return ask(ctx, p.asks, func(context.Context) (*keyStatus, error) { return p.keyStatus(ruleName, key, &cold) })
}

// readApart reads a window in a goroutine of its own.
func (p *partition) readApart(ctx context.Context, name string, to chan<- reading) {
	from := p.own.Store
	p.own.Calls.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, coldPatience)
		defer cancel()
		values, _, err := from.Read(ctx, p.number, store.Windows, [][]byte{[]byte(name)})
		if err != nil {
			to <- reading{err: err}
			return
		}
		to <- reading{value: values[0]}
	})
}

// awaitReading waits for a reading, and no longer than that of a store that does not heed its context.
func awaitReading(ctx context.Context, read <-chan reading) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, coldPatience)
	defer cancel()
	select {
	case cold := <-read:
		return cold, cold.err
	case <-ctx.Done():
		return reading{}, ctx.Err()
	}
}

// peek returns a window that is in memory, or a copy of what was read of the store.
func (p *partition) peek(rule *windows.Rule, name string, cold *reading) (*windows.Window, string, error) {
	if w := p.windows.Peek(name); w != nil {
		return w, "hot", nil
	}
	if cold == nil {
		return nil, "", errCold
	}

	w := &windows.Window{Name: name, Rule: rule}
	if err := p.windows.Fill(w, cold.value); err != nil {
		return nil, "", err
	}
	if cold.value == nil {
		return w, "none", nil
	}

	return w, "cold", nil
}

// keyStatus looks without moving anything: a cold key stays cold. The error is errCold for one that has to be read.
func (p *partition) keyStatus(ruleName, key string, cold *reading) (*keyStatus, error) {
	c := p.rules.named(ruleName)
	if c == nil {
		return nil, fmt.Errorf("the rule %q is not in force here yet", ruleName)
	}

	w, where, err := p.peek(c, ruleName+"/"+key, cold)
	if err != nil {
		return nil, err
	}

	at := p.countedTime()
	s := &keyStatus{Rule: ruleName, Key: key, Partition: p.number, Where: where, At: time.UnixMilli(at).UTC(), Newest: instant(w.State.Newest()), Limits: []limitStatus{}}
	for i, limit := range w.Rule.Spec.Limits {
		count := w.Rule.Policy.Count(&w.State, i, at)
		one := limitStatus{Limit: limit.Text, Count: count, Estimate: w.Rule.Policy.Estimates()}
		_, one.All = w.Rule.Policy.Share(&w.State, at)
		if count > 0 {
			one.Clears = instant(w.Rule.Policy.Clears(&w.State, i, at, limit.Per))
		}
		s.Limits = append(s.Limits, one)
	}

	if v := w.Verdict; v != nil {
		s.Block = &blockStatus{ID: v.ID(ruleName, key), From: time.UnixMilli(v.From).UTC(), Limit: v.Limit, Count: v.Count,
			Level: v.Level, Blocked: v.Live(at), Ended: instant(v.Ended)}
		if v.Until != window.Never {
			s.Block.Until = instant(v.Until)
		}
	}

	return s, nil
}

// countedTime is the time that counts are of: now, and while a backlog is read the time that has been reached.
func (p *partition) countedTime() int64 {
	now := p.config.Now().UnixMilli()
	if p.position.Lag().Records > 0 && p.counter.reached > 0 {
		return min(now, p.counter.reached)
	}
	return now
}
