package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/cmd/internal/daemon"
	"weir/internal/store/redis"
	"weir/pkg/inline/mysql"
	"weir/pkg/inline/postgres"
	"weir/pkg/inline/tables"
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

// inlineStore checks the database that counts inline rules, and makes no tables there.
func (l *liveCheck) inlineStore(ctx context.Context) {
	s := &l.settings.Inline.Store
	if s.Name() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, livePatience)
	defer cancel()
	found := ": answers, and has the tables"
	var err error
	switch {
	case s.Postgres != "":
		options := daemon.InlinePostgresOptions(l.settings, nil)
		options.Create = false
		err = tryInline(ctx, func() (*postgres.Backend, error) { return postgres.Open(options) })
	case s.MySQL != "":
		options := daemon.InlineMySQLOptions(l.settings, nil)
		options.Create = false
		err = tryInline(ctx, func() (*mysql.Backend, error) { return mysql.Open(options) })
	default:
		found = ": answers, and drops no keys (maxmemory-policy noeviction)"
		var options redis.Options
		if options, err = daemon.InlineRedisOptions(l.settings); err == nil {
			err = redis.Check(ctx, options)
		}
	}
	if errors.Is(err, tables.ErrMissing) && s.Create {
		found, err = ": answers; an enforcer makes the tables", nil
	}
	l.judge("inline.store", err, s.Name()+found)
}

// inlinePatience is how long a database may take: its failure is known only when the time is over.
const inlinePatience = 3 * time.Second

func tryInline[B interface {
	io.Closer
	Check(ctx context.Context) error
}](ctx context.Context, open func() (B, error)) error {
	backend, err := open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, inlinePatience)
	defer cancel()
	return errors.Join(backend.Check(ctx), backend.Close())
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
