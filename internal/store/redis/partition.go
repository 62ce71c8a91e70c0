package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store"
)

// errReply reports that a script returned an impossible reply.
var errReply = errors.New("Redis sent an unexpected answer")

// Take makes the caller the owner of a partition.
func (s *Store) Take(ctx context.Context, partition int) (store.Fence, error) {
	for {
		mine, done, err := s.tryTake(ctx, partition)
		if err != nil {
			return store.Fence{}, fmt.Errorf("taking partition %d in Redis: %w", partition, err)
		}
		if done {
			return mine, nil
		}
	}
}

// tryTake fails when another owner takes the partition at the same moment.
func (s *Store) tryTake(ctx context.Context, partition int) (mine store.Fence, done bool, err error) {
	held, err := s.fence(ctx, partition)
	if err != nil {
		return held, false, err
	}
	mine = held.Taken()
	_, done, err = s.run(ctx, partition, held.String(), mine, nil)
	return mine, done, err
}

func (s *Store) fence(ctx context.Context, partition int) (store.Fence, error) {
	text, err := s.client.Get(ctx, s.names(partition).fence()).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return store.Fence{}, err
	}
	return store.ParseFence(text)
}

// Write applies all changes, or none.
func (s *Store) Write(ctx context.Context, partition int, fence store.Fence, changes []store.Change) (store.Fence, error) {
	named := cmp.Or(fence.String(), "nobody") // a caller without a fence does not own a partition that was never taken
	found, done, err := s.run(ctx, partition, named, fence.Next(), changes)
	if err != nil {
		return found, fmt.Errorf("writing %d changes of partition %d to Redis: %w", len(changes), partition, err)
	}
	if !done {
		return found, fmt.Errorf("writing partition %d to Redis as %v, found %v: %w", partition, fence, found, store.ErrFenced)
	}
	return found, nil
}

// run applies the changes if the fence is the named one, and returns the fence afterwards.
func (s *Store) run(ctx context.Context, partition int, named string, next store.Fence, changes []store.Change) (found store.Fence, done bool, err error) {
	keys := s.names(partition).naming(len(changes))
	args := make([]any, 3, 3+3*len(changes))
	args[0], args[1], args[2] = named, next.String(), s.expire
	for _, c := range changes {
		// The script needs all names beforehand, as a Cluster requires; each change takes the next two.
		keys.bucket(spaces[c.Space], c.Key)
		args = append(args, what(c), c.Key, c.Value)
	}

	reply, err := takeOrWrite.Run(ctx, s.client, keys.all(), args...).Slice()
	if err != nil {
		return found, false, err
	}
	if len(reply) != 2 {
		return found, false, errReply
	}

	found, err = store.ParseFence(text(reply[1]))
	return found, reply[0] == int64(1), err
}

// The script's words for its operations.
var toDelete, toSetLong, toSetShort any = "d", "l", "s"

func what(c store.Change) any {
	switch {
	case c.Value == nil:
		return toDelete
	case isLong(c.Key, c.Value):
		return toSetLong
	}
	return toSetShort
}

// Read returns the values of keys, and the fence.
func (s *Store) Read(ctx context.Context, partition int, sp store.Space, keys [][]byte) ([][]byte, store.Fence, error) {
	names := s.names(partition).naming(len(keys))
	args := make([]any, len(keys))
	for i, key := range keys {
		names.bucket(spaces[sp], key)
		args[i] = key
	}

	reply, err := read.Run(ctx, s.client, names.all(), args...).Slice()
	// The values stand in the order of the keys, so their number must be right.
	if err == nil && len(reply) != 1+len(keys) {
		err = errReply
	}
	if err != nil {
		return nil, store.Fence{}, fmt.Errorf("reading %d keys of partition %d from Redis: %w", len(keys), partition, err)
	}

	fence, err := store.ParseFence(text(reply[0]))
	if err != nil {
		return nil, fence, fmt.Errorf("reading partition %d from Redis: %w", partition, err)
	}

	values := make([][]byte, len(keys))
	for i, value := range reply[1:] {
		if value != nil {
			values[i] = []byte(text(value))
		}
	}

	return values, fence, nil
}

func text(reply any) string {
	text, _ := reply.(string)
	return text
}

const (
	// bucketsPerPage bounds how many empty buckets one call looks into.
	bucketsPerPage = 128
	// mostAtOnce is how many pairs a bucket has at most that is read at once. Usual buckets have some hundred.
	mostAtOnce = 4096
)

// A cursor is the number of a bucket and, where a large one is continued, the cursor of Redis in it.
type cursor struct {
	bucket uint64
	long   int64 // 1 in the long bucket, 0 in the short one
	within string
}

func (c cursor) String() string {
	text := strconv.FormatUint(c.bucket, 10)
	if c.within != "0" {
		text += fmt.Sprintf(".%d.%s", c.long, c.within)
	}
	return text
}

func readCursor(text string, buckets uint64) (c cursor, ok bool) {
	c.within = "0"
	if text == "" {
		return c, true
	}
	bucket, rest, large := strings.Cut(text, ".")
	c.bucket, ok = number(bucket)
	if large {
		long, within, _ := strings.Cut(rest, ".")
		_, numeric := number(within)
		ok = ok && numeric && (long == "0" || long == "1")
		if c.within = within; long == "1" {
			c.long = 1
		}
	}
	return c, ok && c.bucket < buckets
}

func number(text string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

// Scan returns the contents of the next few buckets, or a part of a large one.
func (s *Store) Scan(ctx context.Context, partition int, in store.Space, from store.Cursor, pairs int) (store.Page, error) {
	sp := spaces[in]
	at, ok := readCursor(string(from), sp.buckets)
	if !ok {
		return store.Page{}, fmt.Errorf("scanning partition %d in Redis: %q is not a cursor of this space", partition, from)
	}

	names := s.names(partition).naming(bucketsPerPage)
	for bucket := at.bucket; bucket < min(at.bucket+bucketsPerPage, sp.buckets); bucket++ {
		names.numbered(sp, bucket)
	}

	reply, err := scan.Run(ctx, s.client, names.all(), pairs, at.long, at.within, mostAtOnce).Slice()
	if err != nil {
		return store.Page{}, fmt.Errorf("scanning partition %d in Redis: %w", partition, err)
	}

	page, next, err := pageOf(reply, at)
	if err != nil {
		return store.Page{}, fmt.Errorf("scanning partition %d in Redis: %w", partition, err)
	}

	if next.bucket < sp.buckets {
		page.Next = store.Cursor(next.String())
	}

	return page, nil
}

// pageOf reads a reply to scan. next may be fewer buckets on than were named: the script stops once it has enough pairs.
func pageOf(reply []any, at cursor) (page store.Page, next cursor, err error) {
	const head = 4
	if len(reply) < head || len(reply)%2 != 0 {
		return page, next, errReply
	}
	looked, ok := reply[1].(int64)
	long, isNumber := reply[3].(int64)
	next = cursor{at.bucket + uint64(looked), long, cmp.Or(text(reply[2]), "0")}
	if !ok || !isNumber || looked < 0 || looked == 0 && next.within == "0" {
		return page, next, errReply
	}

	page.Fence, err = store.ParseFence(text(reply[0]))
	places := make(map[string]int, len(reply)/2)
	for i := head; i < len(reply); i += 2 {
		pair := store.Pair{Key: []byte(text(reply[i])), Value: []byte(text(reply[i+1]))}
		// Redis may keep a key in both buckets after a crash (takeOrWrite).
		if before, ok := places[text(reply[i])]; ok { // the long value comes after the short one
			page.Pairs[before] = pair
			continue
		}
		places[text(reply[i])] = len(page.Pairs)
		page.Pairs = append(page.Pairs, pair)
	}

	return page, next, err
}
