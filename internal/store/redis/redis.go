// Package redis keeps the cold set in Redis: one server, a Cluster, or a master that Sentinels watch.
//
// # The keys
//
// All keys of a partition have one hash tag, so they lie in one slot of a Cluster; P is Options.Prefix:
//
//	P{partition}f    the fence
//	P{partition}w7   a bucket of short values: a hash, as are all buckets
//	P{partition}W7   the same bucket's long values
//	P{partition}i7, P{partition}I7, P{partition}n0, P{partition}N0   the same for the other spaces
//	P:name           an agreed value
//
// A key of Redis costs some 100 bytes more than its contents. So the keys of a space are spread over a fixed number of
// buckets by xxhash64, 8,192 for Windows. Redis packs a hash whose keys and values all have at most 64 bytes
// (hash-max-listpack-value; and are at most 512, hash-max-listpack-entries): a pair costs about 4 bytes more than its
// contents. One longer value would unpack a bucket, so long values have buckets of their own, at some 80 bytes more
// than their contents; a key that had one stays there until it is deleted. At fewer than 8 keys to a bucket, which is
// 65,536 to a partition, the bucket's own cost begins to show.
//
// # What holds
//
// A call is one script, and Redis does nothing else meanwhile: some 2 µs a key. The configuration of Redis decides how
// many writes a failure or a failover may lose (appendonly, appendfsync, min-replicas-to-write): Sync can do nothing
// about it and returns at once. A server that evicts keys would silently lose counts, so Open refuses one whose
// maxmemory-policy is not noeviction. Redis drops a bucket by itself when nothing was written to it for Options.Expire.
//
// The package retries no call, except those that a Cluster redirects. A Store starts no goroutines of its own (its
// client does, until Close) and keeps no values.
package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"weir/internal/store"
)

// Options locate Redis.
type Options struct {
	// URL is redis://host:6379/0, or rediss:// for TLS. Several hosts separated by commas are a Cluster; with
	// ?master=NAME they are Sentinels.
	URL            string
	User, Password string // when not in the URL
	// ReadPassword returns the password for a new connection. While it returns none, the last one is used.
	ReadPassword func() (string, error)
	TLS          *tls.Config // nil: the system's roots, when the URL has TLS
	Prefix       string      // of all keys, for several installations in one Redis; "weir:" unless given
	// Wrap returns what is used in place of a new connection; nil uses that.
	Wrap func(net.Conn) net.Conn
	// Expire is the time without a write after which Redis may drop a bucket; 0 is never. It is only a safety net: keys
	// that are no longer needed were deleted long before.
	Expire time.Duration
}

// A Store is a cold set in Redis.
type Store struct {
	client goredis.UniversalClient
	prefix string
	expire int64 // ms, 0 is never
}

var _ store.Store = (*Store)(nil)

func init() { goredis.SetLogger(silent{}) }

// silent drops go-redis's log: its calls return the same errors.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Open connects, and checks that Redis can be used.
func Open(ctx context.Context, o Options) (*Store, error) {
	client, err := Dial(o)
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, prefix: cmp.Or(o.Prefix, "weir:"), expire: o.Expire.Milliseconds()}
	if err := s.check(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return s, nil
}

// Check reports whether a Redis can be reached and keeps its data. It changes nothing there.
func Check(ctx context.Context, o Options) error {
	client, err := Dial(o)
	if err != nil {
		return err
	}
	return errors.Join(CheckClient(ctx, client), client.Close())
}

// CheckClient is Check by a client that Dial made.
func CheckClient(ctx context.Context, client goredis.UniversalClient) error {
	return (&Store{client: client}).eachMaster(ctx, refuseEviction)
}

// Check reports whether the server still keeps its data. It changes nothing there.
func (s *Store) Check(ctx context.Context) error { return CheckClient(ctx, s.client) }

// Dial makes a client of the server that Options name, for other stores in Redis. It does not connect yet.
func Dial(o Options) (goredis.UniversalClient, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.User != "" {
		u.Username = o.User
	}
	if o.Password != "" {
		u.Password = o.Password
	}
	if o.ReadPassword != nil {
		u.CredentialsProviderContext = credentials(u.Username, u.Password, o.ReadPassword)
	}
	if o.TLS != nil && u.TLSConfig != nil {
		u.TLSConfig = o.TLS
	}

	// No call is repeated by the client: a write that was applied but not answered would be refused by its own fence
	// the second time. Callers decide what to do.
	u.ContextTimeoutEnabled = true
	u.MaxRetries = -1
	u.DialerRetries = 1
	u.DialTimeout = dialTimeout
	u.DisableIdentity = true
	u.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	u.Dialer = bounded(u.TLSConfig, o.Wrap)
	return goredis.NewUniversalClient(u), nil
}

const dialTimeout = 3 * time.Second

// bounded returns a dialer of connections with bounded replies. It hands out what wrap makes of each; nil leaves them.
func bounded(secure *tls.Config, wrap func(net.Conn) net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dial := (&net.Dialer{Timeout: dialTimeout}).DialContext
		if secure != nil {
			dial = (&tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: secure}).DialContext
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn = newReplies(conn)
		if wrap != nil {
			conn = wrap(conn)
		}
		return conn, nil
	}
}

// credentials returns what go-redis asks for at each new connection.
func credentials(user, last string, read func() (string, error)) func(context.Context) (string, string, error) {
	var mu sync.Mutex
	return func(context.Context) (string, string, error) {
		mu.Lock()
		defer mu.Unlock()
		if password, err := read(); err == nil && password != "" {
			last = password
		}
		return user, last, nil
	}
}

// The layout that the package comment describes.
const layout = "1"

func (s *Store) check(ctx context.Context) error {
	if err := s.eachMaster(ctx, refuseEviction); err != nil {
		return err
	}
	found, err := s.Agree(ctx, "layout", []byte(layout))
	if err != nil {
		return err
	}
	if string(found) != layout {
		return fmt.Errorf("opening Redis: %w: its layout is %.100q, this version knows %q", store.ErrForeign, found, layout)
	}
	return nil
}

func (s *Store) eachMaster(ctx context.Context, check func(context.Context, *goredis.Client) error) error {
	switch client := s.client.(type) {
	case *goredis.ClusterClient:
		return client.ForEachMaster(ctx, check)
	case *goredis.Client:
		return check(ctx, client)
	}
	return fmt.Errorf("opening Redis: a client of type %T", s.client)
}

// ErrEvicts reports a Redis that would silently lose counts.
var ErrEvicts = errors.New("drops keys when it is full")

var policyLine = regexp.MustCompile(`(?m)^maxmemory_policy:(\S+)`)

func refuseEviction(ctx context.Context, client *goredis.Client) error {
	// INFO and not CONFIG GET: hosted Redis services seldom allow the latter.
	info, err := client.Info(ctx, "memory").Result()
	if errors.Is(err, context.DeadlineExceeded) && client.Options().TLSConfig != nil {
		err = fmt.Errorf("%w (a server that does not speak TLS is silent like this)", err)
	}
	if err != nil {
		return fmt.Errorf("asking Redis at %s for its maxmemory-policy: %w", client.Options().Addr, err)
	}

	policy := policyLine.FindStringSubmatch(info)
	switch {
	case policy == nil:
		return fmt.Errorf("Redis at %s does not say its maxmemory-policy: it must be noeviction", client.Options().Addr)
	case policy[1] != "noeviction":
		return fmt.Errorf("Redis at %s %w (maxmemory-policy %s), and counts with them: set maxmemory-policy noeviction",
			client.Options().Addr, ErrEvicts, policy[1])
	}

	return nil
}

// Close ends the client's connections.
func (s *Store) Close() error { return s.client.Close() }

// Sync does nothing: see the package comment.
func (s *Store) Sync(context.Context) error { return nil }

// Agree gives a name a value unless it has one, and returns the one that it has.
func (s *Store) Agree(ctx context.Context, name string, value []byte) ([]byte, error) {
	key := s.prefix + ":" + name
	if err := s.client.SetNX(ctx, key, value, 0).Err(); err != nil {
		return nil, fmt.Errorf("agreeing on %s in Redis: %w", name, err)
	}
	found, err := s.client.Get(ctx, key).Bytes()
	if err != nil {
		return nil, fmt.Errorf("reading the agreed value %s in Redis: %w", name, err)
	}
	return found, nil
}
