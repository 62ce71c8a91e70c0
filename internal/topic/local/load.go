package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"weir/internal/database"
)

// load reads the topics of the present opening of the database. The writer calls it, and Open before the writer runs.
func (l *Log) load(ctx context.Context) error {
	opened, err := database.Do(ctx, l.database, func(db *pebble.DB) (*pebble.DB, error) { return db, l.remake(db) })
	if err != nil {
		return err
	}
	l.forgetUnsynced()

	var number uint64
	states, err := database.Do(ctx, l.database, func(db *pebble.DB) (states []loadedTopic, err error) {
		if db != opened {
			return nil, errReopened
		}
		if number, err = lastNumber(db); err != nil {
			return nil, err
		}
		return readTopics(db)
	})
	if err != nil {
		return err
	}

	l.number = max(l.number, number)
	l.install(states)
	l.loaded.Store(opened)
	return nil
}

// remake writes what an opening of the database lacks: topics that were there before, or else what was not synced. It is
// done before others use the database. Otherwise an aggregator's place in a topic could be on the disk, and not the
// records before it.
func (l *Log) remake(db *pebble.DB) error {
	l.mu.Lock()
	unsynced, of := slices.Clone(l.unsynced), l.remade
	l.mu.Unlock()
	if of.db != db {
		made, err := restore(db, l.allTopics())
		if err != nil {
			return err
		}
		of = remade{db, made}
		l.mu.Lock()
		l.remade = of
		l.mu.Unlock()
	}
	if of.anew {
		return nil
	}
	return again(db, unsynced)
}

// A remade opening has what it lacked.
type remade struct {
	db   *pebble.DB
	anew bool // topics were missing
}

func (l *Log) allTopics() []*storedTopic {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.topics))
}

// restore makes topics again that the database does not have, and reports whether there were any.
func restore(db *pebble.DB, known []*storedTopic) (made bool, err error) {
	for _, t := range known {
		found, err := database.Get(db, topicKey(t.name))
		if err == nil && found == nil {
			next := t.description
			next.ID = newID()
			made, err = true, store(db, t.name, next)
		}
		if err != nil {
			return made, err
		}
	}
	return made, nil
}

func newID() string {
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

func store(db *pebble.DB, name string, d description) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return db.Set(topicKey(name), text, pebble.Sync)
}

// A loadedTopic is a topic as the database has it.
type loadedTopic struct {
	name    string
	of      description
	extents []extent
	latest  []int64
}

func readTopics(db *pebble.DB) (all []loadedTopic, err error) {
	iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{ours, aTopic}, UpperBound: []byte{ours, aTopic + 1}})
	if err != nil {
		return nil, err
	}
	for ok := iterator.First(); ok && err == nil; ok = iterator.Next() {
		one := loadedTopic{name: string(iterator.Key()[2:])}
		if one.of, err = readDescription(iterator.Value()); err == nil {
			err = one.readPartitions(db)
		}
		all = append(all, one)
	}
	return all, errors.Join(err, iterator.Close())
}

func (t *loadedTopic) readPartitions(db *pebble.DB) error {
	iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{ours, aRecord}, UpperBound: []byte{ours, aRecord + 1}})
	if err != nil {
		return err
	}
	for n := range t.of.Partitions {
		var e extent
		var latest int64
		if e, latest, err = readPartition(db, iterator, t.of.Number, n); err != nil {
			err = fmt.Errorf("%s/%d: %w", t.name, n, err)
			break
		}
		t.extents, t.latest = append(t.extents, e), append(t.latest, latest)
	}
	return errors.Join(err, iterator.Close())
}

// readPartition returns where a partition begins and ends: its stored span, and its last record.
func readPartition(db *pebble.DB, records *pebble.Iterator, number uint32, n int) (e extent, latest int64, err error) {
	value, err := database.Get(db, appendPrefix(nil, aSpan, number, n))
	if err != nil {
		return e, 0, err
	}
	if e, err = readExtent(value); err != nil {
		return e, 0, err
	}

	prefix := appendPrefix(nil, aRecord, number, n)
	if !records.SeekLT(appendPrefix(nil, aRecord, number, n+1)) || string(records.Key()[:min(len(records.Key()), prefixBytes)]) != string(prefix) {
		return e, 0, records.Error()
	}

	offset, err := offsetIn(records.Key())
	if err != nil {
		return e, 0, err
	}
	_, h, err := readRecord(records.Value(), offset)
	e.end, e.total = max(e.end, offset+1), max(e.total, h.total)
	return e, h.at, err
}

// install replaces the state in memory.
func (l *Log) install(all []loadedTopic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range all {
		t := l.topics[one.name]
		if t == nil {
			t = newStoredTopic(one.name, one.of)
			l.topics[one.name] = t
		}
		t.ID = one.of.ID
		for n, p := range t.partitions {
			p.set(one.extents[n], one.latest[n])
		}
	}
	l.tails.kept, l.tails.held = nil, 0
	l.announce()
}
