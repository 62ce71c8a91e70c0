// Package embedded runs a Kafka broker inside our own process: kfake, with its data on disk.
//
// Clients in the process reach it over socket pairs (Dial), so no port is open. If configured, it also listens on a
// loopback address or a unix socket. Frames that arrive there are checked first, because an unknown one makes kfake end
// the process.
//
// Durability: with SyncWrites a record is on the disk when it is acknowledged. Without it a loss of power may lose the
// last records; the end of the process loses none. Its compaction is not safe against a kill: topics on it are deleted
// by age or size only (kafka.Client's EnsureTopics refuses others). Retention is applied once a minute. Records lie in
// segments of 8 MiB; a deleted segment frees all of its space.
//
// Open starts goroutines, Close ends them. Memory is about 60 MB, however much is stored. One process at a time may
// open a folder.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

const segmentBytes = "8388608"

// ErrInUse says that another process has the folder's broker.
var ErrInUse = errors.New("in use by another process")

// Config configures the broker.
type Config struct {
	Folder     string // of its data; made when missing
	SyncWrites bool   // acknowledge records only when they are on the disk
	Listen     string // an additional address: a loopback host:port, or a socket's path; "" is none

	RetainEvery time.Duration // between two checks for old records; 0 is a minute
	Logger      *slog.Logger  // nil logs nothing
}

// A Broker is a running one.
type Broker struct {
	cluster *kfake.Cluster
	pairs   *pairs
	gate    *gate // nil without a listener
	lock    *os.File
	stop    chan struct{}
	running sync.WaitGroup
}

// Open starts a broker on the folder's data.
func Open(config Config) (*Broker, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	config.RetainEvery = cmp.Or(config.RetainEvery, time.Minute)

	lock, err := lockFolder(config.Folder)
	if err != nil {
		return nil, err
	}

	// Before kfake opens the data, because it would change them.
	if err := usable(config.Folder); err != nil {
		lock.Close()
		return nil, damaged(config.Folder, err)
	}

	b := &Broker{pairs: newPairs(), lock: lock, stop: make(chan struct{})}
	if config.Listen != "" {
		if b.gate, err = openGate(config.Listen, b.pairs, config.Logger); err != nil {
			lock.Close()
			return nil, err
		}
		b.pairs.address = b.gate.address()
	}

	// One broker needs no ports: all connections of this process come from the socket pairs.
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.DataDir(config.Folder),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return b.pairs, nil }),
		kfake.BrokerConfigs(map[string]string{"log.segment.bytes": segmentBytes}),
		kfake.WithLogger(&logger{to: config.Logger, kinds: map[string]*repeated{}}),
	}

	if config.SyncWrites {
		options = append(options, kfake.SyncWrites())
	}
	if b.cluster, err = kfake.NewCluster(options...); err != nil {
		b.closeRest()
		return nil, damaged(config.Folder, err)
	}

	b.running.Go(func() { b.retain(config.RetainEvery) })
	return b, nil
}

// Dial connects to the broker, for any address. It fits kafka.Config's Dial.
func (b *Broker) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return b.pairs.dial(ctx)
}

// Address returns the additional address of the broker, "" without one.
func (b *Broker) Address() string {
	if b.gate == nil {
		return ""
	}
	return b.gate.listener.Addr().String()
}

// retain deletes old records: kfake does so by itself only after a topic has changed.
func (b *Broker) retain(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			b.cluster.ApplyRetention()
		case <-b.stop:
			return
		}
	}
}

// Close ends the broker; all acknowledged records are on the disk then.
func (b *Broker) Close() {
	close(b.stop)
	b.running.Wait()
	b.cluster.Close()
	b.closeRest()
}

func (b *Broker) closeRest() {
	if b.gate != nil {
		b.gate.close()
	}
	b.lock.Close()
}

// usable refuses partitions without the file with their broker's identity. kfake would start again there, and append to
// old data that could then no longer be read.
func usable(folder string) error {
	partitions, err := os.ReadDir(filepath.Join(folder, "partitions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(folder, "meta.json")); len(partitions) > 0 && err != nil {
		return err
	}
	return nil
}

func damaged(folder string, why error) error {
	return fmt.Errorf("starting the embedded broker on %s: %w; if its files are damaged, move the folder away: a new one is made, without the hits that were not counted yet and without manual entries", folder, why)
}

func lockFolder(folder string) (*os.File, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the embedded broker's folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the embedded broker's folder: %w", err)
	}

	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return lock, nil
	}

	lock.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("the embedded broker's folder %s is %w", folder, ErrInUse)
	}
	return nil, fmt.Errorf("locking the embedded broker's folder: %w", err)
}

// logger logs kfake's failures: each kind at most once a minute, with its count.
type logger struct {
	to *slog.Logger

	mu    sync.Mutex
	kinds map[string]*repeated // by their formats, which are kfake's
}

type repeated struct {
	said  time.Time
	times int // since the last log line
}

const sayEvery = time.Minute

func (l *logger) Logf(level kfake.LogLevel, format string, arguments ...any) {
	as := slog.LevelWarn
	switch level {
	case kfake.LogLevelError:
		as = slog.LevelError
	case kfake.LogLevelWarn:
	default:
		return
	}
	if times, due := l.due(format, time.Now()); due {
		l.to.Log(context.Background(), as, "embedded broker: "+fmt.Sprintf(format, arguments...), "times", times)
	}
}

func (l *logger) due(kind string, now time.Time) (times int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.kinds[kind]
	if r == nil {
		r = &repeated{}
		l.kinds[kind] = r
	}

	r.times++
	if now.Sub(r.said) < sayEvery {
		return 0, false
	}

	times = r.times
	r.said, r.times = now, 0
	return times, true
}
