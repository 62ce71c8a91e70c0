// Package redis keeps the cells of inline limits in Redis or Valkey: one server, a Cluster, or a master that Sentinels
// watch.
//
// A cell is one key, {P}{group}name: P is Options.Prefix, and the group, of four hexadecimal digits, is the hash tag. So
// the cells of a group lie in one slot of a Cluster. The value is the version in eight bytes, then the state. A commit is
// one script, and Redis does nothing else meanwhile. The time is that of the server, and every key expires, but for the
// secret of the IDs of requests.
//
// With OpenSorted a commit also lists what it counts in a sorted set, for people: {P}{group}counted:RULE:KEY. No decision
// reads it, so a Backend with sets and one without may count the same keys.
//
// The configuration of Redis decides how many writes a failure or a failover may lose. A server that evicts keys would
// silently lose counts, so Check refuses one whose maxmemory-policy is not noeviction.
//
// The package repeats no call, except those that a Cluster redirects, and after NOSCRIPT with the script's text.
// Commits that come while another is under way share a round trip, except in a Cluster: there the client would repeat
// what a connection has lost. Each such round trip has a goroutine, and Close waits for it. The client has goroutines of
// its own, until Close.
package redis

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store/redis"
	"weir/pkg/inline/stored"
)

// Options locate Redis.
type Options = redis.Options

// A Backend is cells in Redis.
type Backend struct {
	client   goredis.UniversalClient
	prefix   string
	together *together // nil in a Cluster
	script   *goredis.Script
	sorted   bool // the script is commitSorted
}

var _ stored.Backend = (*Backend)(nil)

// Open makes a Backend. It does not connect yet: that is done by the first call, and again after each failure.
func Open(o Options) (*Backend, error) { return newBackend(o, commit) }

// OpenSorted is Open for a Backend that also has sorted sets.
func OpenSorted(o Options) (*Backend, error) {
	b, err := newBackend(o, commitSorted)
	if err == nil {
		b.sorted = true
	}
	return b, err
}

func newBackend(o Options, script *goredis.Script) (*Backend, error) {
	client, err := redis.Dial(o)
	if err != nil {
		return nil, err
	}
	b := &Backend{client: client, prefix: cmp.Or(o.Prefix, "weir:inline:"), script: script}
	if one, ok := client.(*goredis.Client); ok {
		b.together = &together{client: one, script: script, places: make(chan struct{}, roundTrips)}
	}
	return b, nil
}

// Check reports whether Redis can be reached and keeps its data.
func (b *Backend) Check(ctx context.Context) error { return redis.CheckClient(ctx, b.client) }

// Close ends the connections.
func (b *Backend) Close() error {
	err := b.client.Close()
	if b.together != nil {
		b.together.rounds.Wait()
	}
	return err
}

// run runs the script.
func (b *Backend) run(ctx context.Context, keys []string, args []any) ([]any, error) {
	if b.together != nil {
		return b.together.run(ctx, keys, args)
	}
	return b.script.Run(ctx, b.client, keys, args...).Slice()
}

var errReply = errors.New("Redis sent an unexpected answer")

// Commit does all changes or none.
func (b *Backend) Commit(ctx context.Context, c *stored.Commit) (r stored.Result, err error) {
	keys := make([]string, len(c.Changes), 1+len(c.Changes))
	args := make([]any, 2, 3+3*len(c.Changes)+3*(len(c.Attempts)+len(c.Settlements)))
	args[0], args[1] = c.At, c.Slack
	for i := range c.Changes {
		change := &c.Changes[i]
		keys[i] = b.key(c.Group, change.Name)
		args = append(args, versionBytes(change.Decided), valueOf(change), change.Expires)
	}
	if b.sorted {
		keys, args = append(keys, b.setKey(c)), appendMembers(append(args, c.Longest), c)
	}

	reply, err := b.run(ctx, keys, args)
	if err != nil {
		return r, fmt.Errorf("committing to Redis: %w", err)
	}
	if len(reply) < 2 {
		return r, errReply
	}
	now, ok := reply[1].(int64)
	if !ok {
		return r, errReply
	}
	r.Done, r.Now = reply[0] == int64(1), now
	if r.Done {
		return r, nil
	}
	if r.Cells, err = cells(reply[2:]); err == nil && len(r.Cells) != len(c.Changes) {
		err = errReply
	}
	return r, err
}

// read returns the time in microseconds, then the values of keys.
var read = goredis.NewScript(`
local time = redis.call('TIME')
local found = {time[1] * 1000000 + time[2]}
for i = 1, #KEYS do
  found[i + 1] = redis.call('GET', KEYS[i]) or ''
end
return found
`)

// Read returns cells, and the time.
func (b *Backend) Read(ctx context.Context, group uint16, names []string) (all []stored.Cell, now int64, err error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = b.key(group, name)
	}
	reply, err := read.Run(ctx, b.client, keys).Slice()
	if err != nil {
		return nil, 0, fmt.Errorf("reading from Redis: %w", err)
	}
	now, ok := reply[0].(int64)
	if !ok || len(reply) != 1+len(names) {
		return nil, 0, errReply
	}
	all, err = cells(reply[1:])
	return all, now, err
}

// key is the key of a cell. Redis looks for the group in the first braces.
func (b *Backend) key(group uint16, name string) string {
	hex := strconv.FormatUint(1<<16|uint64(group), 16)[1:]
	return b.prefix + "{" + hex + "}" + name
}

const versionLen = 8

func versionBytes(v uint64) []byte {
	if v == 0 {
		return []byte{}
	}
	return binary.BigEndian.AppendUint64(nil, v)
}

func valueOf(c *stored.Change) []byte {
	if c.Next == 0 {
		return []byte{}
	}
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, versionLen+len(c.State)), c.Next), c.State...)
}

func cells(values []any) ([]stored.Cell, error) {
	all := make([]stored.Cell, len(values))
	for i, value := range values {
		text, ok := value.(string)
		switch {
		case !ok || text != "" && len(text) < versionLen:
			return nil, errReply
		case text != "":
			all[i] = stored.Cell{Version: binary.BigEndian.Uint64([]byte(text[:versionLen])), State: []byte(text[versionLen:])}
		}
	}
	return all, nil
}
