package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"weir/pkg/inline/stored"
)

var _ stored.Scanner = (*Backend)(nil)

// scanned is how many keys of any kind a round trip looks at, and about the time for which others wait.
const scanned = 512

var errEnough = errors.New("enough")

// A scan is a list of cells, of several masters at once in a Cluster.
type scan struct {
	prefix  string // of keys, without the group
	pattern string
	mu      sync.Mutex // of the rest
	seen    map[string]bool
	look    func(name string, cell stored.Cell, now int64) bool
	over    bool
}

// Scan lists cells with SCAN, which goes through all keys of the database.
func (b *Backend) Scan(ctx context.Context, prefix string, look func(name string, cell stored.Cell, now int64) bool) error {
	s := &scan{prefix: b.prefix, pattern: literal.Replace(b.prefix) + "{????}" + literal.Replace(prefix) + "*", seen: map[string]bool{}, look: look}
	var err error
	switch client := b.client.(type) {
	case *goredis.ClusterClient:
		err = client.ForEachMaster(ctx, s.through)
	case *goredis.Client:
		err = s.through(ctx, client)
	default:
		return fmt.Errorf("listing the keys in Redis: a client of type %T", b.client)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("listing the keys in Redis: %w", err)
	}
	return nil
}

// literal makes a pattern of SCAN that matches a text only.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// through goes through the keys of a server.
func (s *scan) through(ctx context.Context, client *goredis.Client) error {
	for cursor := uint64(0); ; {
		keys, next, err := client.Scan(ctx, cursor, s.pattern, scanned).Result()
		if err == nil {
			err = s.page(ctx, client, keys)
		}
		if err != nil || next == 0 {
			return err
		}
		cursor = next
	}
}

// page looks at some keys.
func (s *scan) page(ctx context.Context, client *goredis.Client, keys []string) error {
	if len(keys) == 0 {
		return ctx.Err()
	}
	pipe := client.Pipeline()
	at := pipe.Time(ctx)
	values := make([]*goredis.StringCmd, len(keys))
	for i, key := range keys {
		values[i] = pipe.Get(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, goredis.Nil) { // a key may have expired
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		if s.over {
			return errEnough
		}
		value := values[i].Val()
		if s.seen[key] || value == "" { // SCAN may return a key twice
			continue
		}
		s.seen[key] = true
		found, err := cells([]any{value})
		if err != nil {
			return err
		}
		s.over = !s.look(key[len(s.prefix)+len("{0000}"):], found[0], at.Val().UnixNano()/int64(time.Microsecond))
	}
	if s.over {
		return errEnough
	}
	return nil
}
