package stored

import (
	"context"
	"crypto/hmac"
	crypto "crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// A secret is that by which the IDs of requests are made. All processes have the same, which is in the database. When the
// database loses it, processes that were started before and after have different ones: then a request that both are
// asked about counts twice.
type secret struct {
	mu   sync.Mutex
	text []byte
}

const secretName = "s"

// idOf makes an ID of a text that names a request.
func (s *Store) idOf(ctx context.Context, request string) (id inline.ID, err error) {
	s.secret.mu.Lock()
	text := s.secret.text
	s.secret.mu.Unlock()
	if text == nil {
		if text, err = s.agree(ctx); err != nil {
			return id, err
		}
	}
	hash := hmac.New(sha256.New, text)
	hash.Write([]byte(request))
	copy(id[:], hash.Sum(nil))
	return id, nil
}

// agree reads the secret, or makes it.
func (s *Store) agree(ctx context.Context) ([]byte, error) {
	mine := make([]byte, 32)
	_, _ = crypto.Read(mine) // never fails
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
