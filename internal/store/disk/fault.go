package disk

import (
	"context"
	"fmt"
	"log/slog"
)

// A fault is what pebble ends a process for. It passes as a panic from pebble to the call that is under way,
// which is the only way out that pebble leaves: its Fatalf must not return.
type fault struct{ text string }

// told is what pebble tells things to.
type told struct {
	s   *Store
	log *slog.Logger
}

// Infof is told of every file that is made: nobody needs that.
func (told) Infof(string, ...any) {}

func (t told) Errorf(format string, args ...any) {
	if t.log != nil {
		t.log.Error("the store on disk is in trouble", "trouble", fmt.Sprintf(format, args...))
	}
}

func (t told) Fatalf(format string, args ...any) {
	f := &fault{fmt.Sprintf(format, args...)}
	t.s.broken.CompareAndSwap(nil, f)
	panic(f)
}

func (s *Store) fault() error {
	if f := s.broken.Load(); f != nil {
		return fmt.Errorf("%w: %s", ErrBroken, f.text)
	}
	return nil
}

// call does something with pebble, unless that has broken before, and says what it was when it fails.
func (s *Store) call(ctx context.Context, what string, do func() error) (err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			if _, ok := thrown.(*fault); !ok {
				panic(thrown)
			}
			err = s.fault()
		}
		if err != nil {
			err = fmt.Errorf("%s on disk: %w", what, err)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.fault(); err != nil {
		return err
	}
	return do()
}
