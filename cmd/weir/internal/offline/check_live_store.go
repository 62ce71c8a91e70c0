package offline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weir/cmd/internal/daemon"
	"weir/internal/store/redis"
)

// store checks Redis, or the folder of the disk store.
func (l *liveCheck) store(ctx context.Context) {
	if l.settings.Store.Redis == "" {
		l.folder("store", l.settings.StoreFolder())
		return
	}
	ctx, cancel := context.WithTimeout(ctx, livePatience)
	defer cancel()
	options, err := daemon.RedisOptions(l.settings)
	if err == nil {
		err = redis.Check(ctx, options)
	}
	l.judge("store", err, l.settings.Store.Redis+": answers, and drops no keys (maxmemory-policy noeviction)")
}

// inlineStore checks the Redis that counts inline rules.
func (l *liveCheck) inlineStore(ctx context.Context) {
	if l.settings.Inline.Store.Redis == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, livePatience)
	defer cancel()
	options, err := daemon.InlineRedisOptions(l.settings)
	if err == nil {
		err = redis.Check(ctx, options)
	}
	l.judge("inline.store", err, l.settings.Inline.Store.Redis+": answers, and drops no keys (maxmemory-policy noeviction)")
}

// folder requires a folder that can be written, or made.
func (l *liveCheck) folder(thing, path string) {
	found, err := writableFolder(path)
	l.judge(thing, err, found)
}

func writableFolder(path string) (found string, err error) {
	for above := path; ; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		switch {
		case errors.Is(err, fs.ErrNotExist) && above != filepath.Dir(above):
			continue
		case err != nil:
			return "", err
		case !info.IsDir():
			return "", fmt.Errorf("%s is not a folder", above)
		}

		if err := unix.Access(above, unix.W_OK|unix.X_OK); err != nil {
			return "", fmt.Errorf("%s cannot be written: %w", above, err)
		}
		if above != path {
			return path + ": will be made at the first start", nil
		}

		return path + ": can be written", nil
	}
}
