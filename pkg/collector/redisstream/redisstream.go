// Package redisstream reads streams of Redis, as logs of package ordered. It writes nothing there: it needs no group of
// consumers.
//
// # Positions
//
// The position of an entry is its number since the stream was made. Redis keeps that count (entries-added). So the
// difference between two positions is the number of entries between them, also of those that were trimmed or deleted.
// The place is found by the ID of the last entry that was read.
//
// A stream has no identity. One that was made again shows by its counts: it has had fewer entries than were read, or all
// that were read are gone although it never had as many. Its IDs come from the clock, and are higher than those before,
// unless its writers choose them. Where the counts went back and the IDs overlap, Redis has lost writes or is an old
// copy: then no ID is read twice.
//
// Bounds. A page has at most 2,000 entries, and about 1 MiB if they are as long as those before. A reply has at most 64
// MiB; a longer one is asked for in smaller parts.
package redisstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store/redis"
	"weir/pkg/collector/ordered"
)

const (
	firstPage = 100
	mostPage  = 2000
	pageBytes = 1 << 20
	replyMost = 64 << 20
	waitFor   = 500 * time.Millisecond
)

// Options name streams.
type Options struct {
	Redis redis.Options
	Keys  []string
	// Field is the field of an entry that contains the line. Without it, the value of an entry with one field is the
	// line, and one with several is a JSON object.
	Field string
}

// Open makes a log for each key. It does not connect yet.
func Open(o Options) ([]ordered.Log, error) {
	o.Redis.Wrap = limitReplies
	var logs []ordered.Log
	for _, key := range o.Keys {
		client, err := redis.Dial(o.Redis)
		if err != nil {
			for _, log := range logs {
				log.Close()
			}
			return nil, err
		}
		logs = append(logs, &stream{client: client, key: key, user: o.Redis.User, field: o.Field, count: firstPage})
	}
	return logs, nil
}

// A stream is one key.
type stream struct {
	client goredis.UniversalClient
	key    string
	user   string
	field  string
	count  int64 // entries to ask for
}

func (s *stream) String() string { return s.key }

// Close closes the connections.
func (s *stream) Close() { _ = s.client.Close() }

// A state is what Redis knows of a stream.
type state struct {
	added   int64 // entries that it ever had
	removed int64 // those that it does not have any more
	first   id    // of its first entry; zero when it has none
	newest  id    // of the last entry that it ever had
	empty   bool
}

func stateOf(info *goredis.XInfoStream, err error) (s state, fault error) {
	switch {
	case err != nil && strings.Contains(err.Error(), "no such key"):
		return s, ordered.ErrMissing
	case err != nil:
		return s, err
	case info.EntriesAdded == 0 && info.Length > 0:
		return s, errors.New("its server does not count the entries of streams: Redis 7 or newer is needed")
	}
	s = state{added: info.EntriesAdded, removed: max(0, info.EntriesAdded-info.Length), empty: info.Length == 0}
	var ok, also bool
	s.newest, ok = parseID(info.LastGeneratedID)
	s.first, also = parseID(info.FirstEntry.ID)
	if !ok || !also && !s.empty {
		return s, fmt.Errorf("Redis describes it with the IDs %q and %q", info.FirstEntry.ID, info.LastGeneratedID)
	}
	return s, nil
}

// continues reports whether the stream is the one that was read up to a place.
func (s *state) continues(at place) bool {
	if s.newest.less(at.id) {
		return at.loose && (s.empty || s.first.byClock()) // it went back, and has not come as far again
	}
	return at.loose || s.added >= at.position && (s.overlaps(at) || s.removed >= at.position)
}

// overlaps reports whether the stream has entries with IDs that were read.
func (s *state) overlaps(at place) bool { return !s.empty && !at.id.less(s.first) }

// Extent looks at the stream.
func (s *stream) Extent(ctx context.Context, was *ordered.Known) (ordered.Extent, error) {
	now, err := stateOf(s.client.XInfoStream(ctx, s.key).Result())
	if err != nil {
		return ordered.Extent{}, s.explain(err)
	}
	e := ordered.Extent{First: place{position: now.removed}.ordered(), Last: place{position: now.added, id: now.newest}.ordered()}
	if was == nil {
		return e, nil
	}

	at, err := placeOf(was.Place)
	switch {
	case err != nil:
		return e, err
	case now.continues(at):
	case now.overlaps(at) && now.first.byClock():
		e.Other = fmt.Sprintf("Redis went back, perhaps to an older copy: it has had %d entries, up to %s, but was read up to %s; IDs up to there are not read again", now.added, now.newest, at.id)
		e.Begin = place{position: now.removed, id: at.id, loose: true}.ordered()
	default:
		e.Other = "the stream was deleted and made again"
		e.Begin = e.First
	}
	return e, nil
}

// Since returns the place before the first entry with an ID that is not older than a time.
func (s *stream) Since(ctx context.Context, at time.Time) (ordered.Place, error) {
	now, err := stateOf(s.client.XInfoStream(ctx, s.key).Result())
	if err != nil {
		return ordered.Place{}, s.explain(err)
	}
	before := id{ms: uint64(max(1, at.UnixMilli())) - 1, seq: 1<<64 - 1}
	if now.newest.less(before) {
		return place{position: now.added, id: now.newest}.ordered(), nil
	}
	return place{position: now.removed, id: before, loose: true}.ordered(), nil
}

// Read returns the entries after a place.
func (s *stream) Read(ctx context.Context, after ordered.Place) (ordered.Page, error) {
	at, err := placeOf(after)
	if err != nil {
		return ordered.Page{}, err
	}
	page, err := s.page(ctx, at)
	if err != nil || len(page.Entries) > 0 {
		return page, s.explain(err)
	}

	_, err = s.client.XRead(ctx, &goredis.XReadArgs{Streams: []string{s.key, at.id.String()}, Count: 1, Block: waitFor}).Result()
	if err != nil && !tooLong(err) { // Nil when none came
		return page, s.explain(notNil(err))
	}
	page, err = s.page(ctx, at)
	return page, s.explain(err)
}

func notNil(err error) error {
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	return err
}

// page returns the entries that there are, with the state of the stream at that moment.
func (s *stream) page(ctx context.Context, at place) (page ordered.Page, err error) {
	var messages *goredis.XMessageSliceCmd
	var info *goredis.XInfoStreamCmd
	count := s.count
	_, err = s.client.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		messages = p.XRangeN(ctx, s.key, "("+at.id.String(), "+", count)
		info = p.XInfoStream(ctx, s.key)
		return nil
	})
	switch {
	case tooLong(err) && count > 1:
		s.count, page.Waiting = max(1, count/8), 1 // or more
		return page, nil
	case tooLong(err):
		return page, fmt.Errorf("the entry after %s has more than %d MiB and cannot be read; find it by XRANGE %q %s + COUNT 1, and remove it by XDEL", at.id, replyMost>>20, s.key, "("+at.id.String())
	case err != nil && info.Err() == nil:
		return page, err
	}
	now, err := stateOf(info.Result())
	if err != nil {
		return page, err
	}
	if !now.continues(at) {
		return page, ordered.ErrOther
	}
	return s.pageOf(at, messages.Val(), &now, count)
}

// pageOf makes a page of messages. Where they are the last ones, the count of all entries shows how many were deleted
// before them.
func (s *stream) pageOf(at place, messages []goredis.XMessage, now *state, asked int64) (page ordered.Page, err error) {
	n, start := int64(len(messages)), at.position
	switch {
	case n < asked:
		start = now.added - n
	case !now.overlaps(at) && !at.loose:
		start = now.removed
	}
	if start < at.position {
		return page, ordered.ErrOther
	}
	if !at.loose {
		page.Lost = start - at.position
	}
	at.loose = at.loose && n == asked
	page.Start, page.Waiting = start, max(0, now.added-start-n)

	bytes := 0
	for i := range messages {
		next, ok := parseID(messages[i].ID)
		if !ok {
			return page, fmt.Errorf("an entry has the ID %q", messages[i].ID)
		}
		at.position, at.id = start+int64(i)+1, next
		value := s.line(messages[i].Values)
		bytes += len(value)
		entry := ordered.Entry{Value: value, After: at.ordered()}
		if len(value) > ordered.LongestEntry {
			entry.Value, entry.Long = value[:sampleOfLong], true
		}
		page.Entries = append(page.Entries, entry)
	}
	s.adapt(n, bytes)
	return page, nil
}

const sampleOfLong = 1 << 10

// adapt sets how many entries to ask for, from the length of the last ones.
func (s *stream) adapt(n int64, bytes int) {
	if n > 0 {
		s.count = min(max(1, pageBytes*n/int64(max(bytes, 1))), 2*s.count, mostPage)
	}
}

// explain adds what can be done about an error.
func (s *stream) explain(err error) error {
	if err == nil {
		return nil
	}
	who := "the default user"
	if s.user != "" {
		who = "user " + strconv.Quote(s.user)
	}
	switch {
	case goredis.HasErrorPrefix(err, "WRONGPASS"), goredis.HasErrorPrefix(err, "NOAUTH"):
		return fmt.Errorf("Redis refuses %s: wrong password, or no such user: %w", who, err)
	case goredis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("%s may not do this: %w; an administrator permits it: ACL SETUSER NAME +xrange +xread +xinfo +multi +exec %%R~%s", who, err, s.key)
	case goredis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("it is not a stream: is the name of the key right? %w", err)
	}
	return err
}
