package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/store"
	"weir/pkg/aggregator/windows"
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

// explain asks the partition's goroutine for a key. For one that is not in memory it waits for the store; the goroutine
// does not, and counts on.
func (p *partition) explain(ctx context.Context, ruleName, key string) (*keyStatus, error) {
	read := make(chan reading, 1)
	status, err := p.askKey(ctx, func(ctx context.Context) (*keyStatus, error) {
		status, err := p.keyStatus(ruleName, key, nil)
		if errors.Is(err, errCold) {
			p.readApart(ctx, ruleName+"/"+key, read)
		}
		return status, err
	})
	if !errors.Is(err, errCold) {
		return status, err
	}

	cold, err := await(ctx, read)
	if err != nil {
		return nil, fmt.Errorf("%w, and the store does not answer: %w", errCold, err)
	}
	return p.askKey(ctx, func(context.Context) (*keyStatus, error) { return p.keyStatus(ruleName, key, &cold) })
}

// askKey has the partition's goroutine look at a key.
func (p *partition) askKey(ctx context.Context, look func(context.Context) (*keyStatus, error)) (*keyStatus, error) {
	var status *keyStatus
	err := p.ask(ctx, func(ctx context.Context) (err error) {
		status, err = look(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return status, nil
}

// readApart reads a window in a goroutine of its own.
func (p *partition) readApart(ctx context.Context, name string, to chan<- reading) {
	from := p.own.Store
	p.reads.Go(func() {
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

// await waits for a reading, and no longer than that of a store that does not heed its context.
func await(ctx context.Context, read <-chan reading) (reading, error) {
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
