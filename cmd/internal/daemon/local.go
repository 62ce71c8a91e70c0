package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/exit"
	"weir/internal/database"
	"weir/internal/store/disk"
	"weir/internal/topic"
	"weir/internal/topic/local"
)

// A Local is the database of a process that needs no Kafka: the topics, and the store of the windows unless that is in
// Redis. One process at a time has its folder; it lets commands read the topics through a socket.
type Local struct {
	*local.Log
	database *database.DB
	server   *local.Server // nil in a command
}

const (
	localMemory = 96 << 20 // bytes, localWrites of them for writes
	localWrites = 16 << 20
)

// OpenLocal opens the database of a configuration for a command. It deletes no old records.
func OpenLocal(ctx context.Context, c *config.Config, logger *slog.Logger) (*Local, error) {
	return openDatabase(ctx, c, logger, database.Options{}, 24*time.Hour)
}

func openDatabase(ctx context.Context, c *config.Config, logger *slog.Logger, o database.Options, retainEvery time.Duration) (*Local, error) {
	if err := FormerBroker(c.BrokerFolder()); err != nil {
		return nil, exit.Wrong(err)
	}
	o.Folder, o.MemoryBytes, o.WriteBytes, o.Log = c.StoreFolder(), localMemory, localWrites, logger
	o.Check, o.SplitAt = disk.Check, local.SplitAt
	db, err := database.Open(ctx, o)
	if err != nil {
		return nil, err
	}

	topics, err := local.Open(ctx, local.Options{Database: db, RetainEvery: retainEvery, Logger: logger})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Local{Log: topics, database: db}, nil
}

// FormerBroker refuses the data of the broker that versions before had in place of topics in the store.
func FormerBroker(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, "partitions")); err != nil {
		return nil //nolint:nilerr // a folder that cannot be looked into fails where the store is opened
	}
	return fmt.Errorf("%s has the topics of a version before, which this one cannot read; run that version until `weir status` shows that nothing waits, stop it, and move the folder away: counts and blocks are in the store and stay, the history of events does not", folder)
}

// Close closes the topics and the database.
func (l *Local) Close() {
	if l.server != nil {
		l.server.Close()
	}
	l.Log.Close()
	_ = l.database.Close() // a disk that fails was logged, and all that was answered is on it
}

// openLocal opens the database for a process that runs on it, even while its disk fails. It waits for a command that looks
// at the folder: that has it locked for a moment.
func (p *Process) openLocal(ctx context.Context) (*Local, error) {
	socket := p.Config.TopicsSocket()
	began := time.Now()
	passes := func(err error) bool {
		return errors.Is(err, database.ErrInUse) && !Listens(socket) && time.Since(began) < commandPatience
	}
	var opened *Local
	err := p.retry(ctx, "store", p.Health.Unready, passes, func() (err error) {
		opened, err = openDatabase(ctx, p.Config, p.Logger, database.Options{Anyhow: true}, 0)
		return err
	})
	switch {
	case errors.Is(err, database.ErrInUse) && ctx.Err() == nil:
		return nil, fmt.Errorf("%w; end that process (weir status shows it), or name another folder in data", err)
	case err != nil:
		return nil, err
	}
	if opened.server, err = opened.Serve(socket); err != nil {
		p.Logger.Warn("commands cannot look at the topics until the next start", "error", err)
	}
	return opened, nil
}

// localNotes are the notes next to the topic of hits.
type localNotes struct {
	*local.Log
	hits  *local.Appender
	apart bool // the windows are in another database, and must not get ahead of the hits
}

// Together implements journal.Notes.
func (l localNotes) Together(ctx context.Context, messages []topic.Message, notes []topic.Note, synced bool) error {
	var parts []local.Part
	if len(messages) > 0 { // notes alone do not wait for room in the queue of hits
		parts = []local.Part{{Appender: l.hits, Messages: messages}}
	}
	if synced || l.apart {
		return l.Log.Together(ctx, parts, notes, nil)
	}
	return l.TogetherUnsynced(ctx, parts, notes, nil)
}

// commandPatience is how long a command of the tool may have the folder while a process starts on it.
const commandPatience = time.Minute

// Listens reports whether a process answers at a unix socket.
func Listens(socket string) bool {
	probe, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	_ = probe.Close()
	return true
}

// shared is a Log that others close.
type shared struct{ topic.Log }

func (shared) Close() {}
