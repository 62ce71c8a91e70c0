package follow

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"weir/pkg/blocklist"
)

// Save writes the list to a file: whole or not at all, also when the power is lost meanwhile.
func Save(path string, set *blocklist.Set, nowMilli int64) error {
	if err := save(path, set, nowMilli); err != nil {
		return fmt.Errorf("keeping the list in %s: %w", path, err)
	}
	return nil
}

func save(path string, set *blocklist.Set, nowMilli int64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = set.WriteSnapshot(file, nowMilli)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		os.Remove(file.Name())
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// Load reads a file that Save wrote into a Set. On an error the Set is what it was.
func Load(path string, set *blocklist.Set, nowMilli int64) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the last whole list: %w", err)
	}
	defer file.Close()
	from := bufio.NewReader(file)
	_, err = set.Read(from, nowMilli)
	if err == nil {
		if _, more := from.ReadByte(); more == nil {
			return fmt.Errorf("reading the last whole list %s: more bytes behind its end", path)
		}
		return nil
	}
	return fmt.Errorf("reading the last whole list %s: %w", path, err)
}

// A saver keeps the Set in the file.
type saver struct {
	*Follower
	saved blocklist.Version
	at    time.Time
}

// load reads what the last process kept. Without it, or when it is damaged, the Set stays empty.
func (s *saver) load() {
	if s.config.File == "" {
		return
	}
	err := Load(s.config.File, s.config.Set, s.now())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.config.Logger.Error("blocklist: the last whole list cannot be used", "error", err)
	default:
		s.saved = s.config.Set.Version()
		s.change(func(status *Status) { status.Saved = s.config.Now() })
		s.config.Logger.Info("blocklist: read the last whole list", "version", s.saved.String(), "as of", time.UnixMilli(s.config.Set.AsOf()))
	}
}

func (s *saver) run(ctx context.Context) {
	if s.config.File == "" {
		return
	}
	for ctx.Err() == nil {
		changed := s.config.Set.Changed()
		if !s.due() {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		if s.config.Set.Version().List == s.saved.List {
			sleep(ctx, s.config.SaveEvery-s.config.Now().Sub(s.at))
		}
		if ctx.Err() == nil {
			s.save()
		}
	}
	if s.due() {
		s.save()
	}
}

// due says whether the file has another list than the Set.
func (s *saver) due() bool {
	state := s.config.Set.State()
	return state.Whole && state.Version != s.saved
}

// save writes the file, and does not try again before SaveEvery when it fails.
func (s *saver) save() {
	version := s.config.Set.Version()
	s.at = s.config.Now()
	s.saved = version
	if err := Save(s.config.File, s.config.Set, s.now()); err != nil {
		s.faults.Note("save", err)
		s.saved.Offset = -1 // the same list, and not this version
		return
	}
	s.faults.Over("save")
	s.change(func(status *Status) { status.Saved = s.at })
}
