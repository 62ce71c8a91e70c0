package stored

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// A Queues is a Backend that has queues, too: streams whose entries others remove.
type Queues interface {
	// Push adds an entry to a stream if it has fewer than AtMost and the database's clock is not beyond Until.
	Push(ctx context.Context, p *Push) (Pushed, error)
	// Remove removes an entry, if it is still there.
	Remove(ctx context.Context, stream, entry string) error
}

// A Push is an entry for a stream.
type Push struct {
	Stream string
	AtMost int64    // 0 only asks for the length
	Until  int64    // microseconds since 1970, by the database's clock
	Fields []string // names and values
}

// A Pushed is what became of a Push.
type Pushed struct {
	Entry  string // empty if nothing was added
	Length int64  // of the stream, with the entry
	Now    int64  // the database's time in microseconds
	Late   bool   // it came after Until
}

var errNoQueues = errors.New("this store has no queues")

// An entry is one that was added for an attempt.
type entry struct{ stream, id string }

// enqueue puts an attempt that all limits admit into the queues of its rules, or refuses it.
func (s *Store) enqueue(ctx context.Context, a *attempt, v *inline.Verdict, wants []inline.Want) error {
	var added []entry
	full := false
	for i := range wants {
		w := &wants[i]
		if w.Rule.Queue == nil || w.Known || full {
			continue
		}
		pushed, err := s.push(ctx, a.id, w, &v.Taken[i])
		if err != nil {
			s.takeBackQueued(ctx, added)
			s.takeBack(ctx, a)
			return err
		}
		if pushed.Entry != "" {
			added = append(added, entry{w.Rule.Queue.Stream, pushed.Entry})
		}
		full = queued(&v.Taken[i], w, &pushed)
	}

	v.Admitted, v.Decides = true, -1
	v.Decide(wants)
	if !full {
		return nil
	}
	s.takeBackQueued(ctx, added)
	s.takeBack(ctx, a)
	a.giveBack(v)
	return nil
}

// queued makes an answer one of the queue, where that is nearer to its bound than the rule's limits are, and reports whether
// it refuses.
func queued(t *window.Taken, w *inline.Want, pushed *Pushed) (refused bool) {
	left := max(0, w.Rule.Queue.AtMost-pushed.Length)
	full := w.Cost > 0 && (pushed.Entry == "" || pushed.Length > w.Rule.Queue.AtMost)
	if full || left < t.Remaining {
		t.Limit, t.Remaining, t.Again = w.Rule.Queue.Limit, left, t.At
		if full || left == 0 {
			t.Again = inline.NotKnown
		}
	}
	if full {
		t.Admitted = false
	}
	return full && !w.Rule.Shadow
}

// push adds an entry for a Want, or only asks for the length of the queue if it costs nothing.
func (s *Store) push(ctx context.Context, id inline.ID, w *inline.Want, t *window.Taken) (Pushed, error) {
	queues, ok := s.config.Backend.(Queues)
	if !ok {
		return Pushed{}, errNoQueues
	}
	p := Push{Stream: w.Rule.Queue.Stream, AtMost: w.Rule.Queue.AtMost}
	switch {
	case w.Cost < 1:
		p.AtMost = 0
	case w.Rule.Shadow:
		p.AtMost += inline.MostShadowed
	}
	p.Fields = append([]string{"attempt", id.String(), "rule", w.Rule.Name, "key", string(w.Key), "cost", strconv.FormatInt(w.Cost, 10),
		"time", time.UnixMilli(t.At).UTC().Format("2006-01-02T15:04:05.000Z07:00")}, w.Fields...)
	for {
		p.Until = s.clock.now() + s.config.Slack.Microseconds()
		pushed, err := queues.Push(ctx, &p)
		if err != nil || !pushed.Late {
			return pushed, err
		}
		s.clock.told(pushed.Now, true)
		if err := ctx.Err(); err != nil {
			return pushed, fmt.Errorf("an entry came too late: %w", err)
		}
	}
}

// takeBackQueued removes entries that were added. A consumer may have had them.
func (s *Store) takeBackQueued(ctx context.Context, added []entry) {
	if len(added) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoPatience)
	defer cancel()
	for _, one := range added {
		_ = s.config.Backend.(Queues).Remove(ctx, one.stream, one.id) // then it stays
	}
}
