package stored

import (
	"context"
	"crypto/hmac"
	crypto "crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// A secret is that by which the IDs of requests are made. All processes have the same, which is in the database. When the
// database loses it, processes that were started before and after have different ones for a while: then a request that
// both are asked about counts twice.
type secret struct {
	mu    sync.Mutex
	text  []byte
	asked time.Time
}

const (
	secretName = "s"
	// askAgain is how often the database is asked whether the secret is still the same.
	askAgain = time.Minute
)

// idOf makes an ID of a text that names a request. It also reports whether it is time to agree again.
func (s *Store) idOf(ctx context.Context, request string) (id inline.ID, again bool, err error) {
	text, again := s.secret.get(time.Now())
	if text == nil {
		if text, err = s.agree(ctx); err != nil {
			return id, false, err
		}
		again = false
	}
	hash := hmac.New(sha256.New, text)
	hash.Write([]byte(request))
	copy(id[:], hash.Sum(nil))
	return id, again, nil
}

// IDsOf is the ID that all processes give to the attempt of a request.
func (s *Store) IDsOf(ctx context.Context, request string) ([]inline.ID, error) {
	id, _, err := s.idOf(ctx, request)
	return []inline.ID{id}, err
}

// get returns the secret as last known, and whether the caller is to ask for it: one caller in a while.
func (s *secret) get(now time.Time) (text []byte, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if due = now.Sub(s.asked) >= askAgain; due {
		s.asked = now
	}
	return s.text, due
}

func (s *secret) last() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// agree reads the secret. If the database has none, it writes the one that is known, or a new one.
func (s *Store) agree(ctx context.Context) ([]byte, error) {
	mine := s.secret.last()
	if mine == nil {
		mine = make([]byte, 32)
		_, _ = crypto.Read(mine) // never fails
	}
	cell, err := s.change(ctx, 0, secretName, func(now Cell) (state []byte, expires int64) {
		if now.Version != 0 {
			return nil, 0
		}
		return mine, window.MaxTime
	})
	if err != nil {
		return nil, err
	}
	s.secret.mu.Lock()
	defer s.secret.mu.Unlock()
	s.secret.text = cell.State
	return cell.State, nil
}

// change changes a cell of its own until no other is faster, and returns it. No state changes nothing.
func (s *Store) change(ctx context.Context, group uint16, name string, to func(now Cell) (state []byte, expires int64)) (Cell, error) {
	var cell Cell
	for {
		c := Commit{Group: group, At: s.clock.now(), Slack: s.config.Slack.Microseconds(), Changes: []Change{{Name: name, Decided: cell.Version}}}
		own := &c.Changes[0]
		if own.State, own.Expires = to(cell); own.State != nil {
			own.Next = newVersion()
		}
		done, err := s.config.Backend.Commit(ctx, &c)
		if err != nil {
			return cell, err
		}
		s.clock.told(done.Now, !done.Done && (done.Now < c.At || done.Now > c.At+c.Slack))
		switch {
		case !done.Done:
			cell = done.Cells[0]
		case own.State != nil:
			return Cell{own.Next, own.State}, nil
		default:
			return cell, nil
		}
	}
}

// note writes by which keys an attempt is found. Without it the attempt counts, and cannot be settled.
func (s *Store) note(ctx context.Context, id inline.ID, keys []string) {
	_, _ = s.change(ctx, groupOfID(id), recordOf(id, ""), func(now Cell) (state []byte, expires int64) {
		all := record{names: []string{""}}
		if now.Version != 0 {
			if was, err := readRecord(now.State); err == nil && len(was.names) > 0 {
				all = was
			}
		}
		before := len(all.names)
		for _, key := range keys {
			if !slices.Contains(all.names, key) && len(all.names) < maxParts {
				all.names = append(all.names, key)
			}
		}
		if len(all.names) == before {
			return nil, 0
		}
		return all.bytes(), s.clock.now()/1000 + s.config.Settle.Milliseconds()
	})
}
