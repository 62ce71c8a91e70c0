// Package stored decides attempts at inline limits whose windows several processes share in a database.
//
// The algorithms are those of package window, in this process: the database only keeps bytes. A Store reads the state of
// a key, decides, and commits the new state on condition that the version of the state is still the one that was decided
// on; if another process was faster it decides again. So a database takes part with a Backend, which is a
// compare-and-set of some cells and a clock, and inlinetest.RunBackend is its test. Packages redis, postgres and mysql
// have them.
//
// # To write a Backend
//
// One table is enough: the name of a cell (its primary key, at most MaxName bytes, compared as bytes), the version (64
// bits), the state (bytes) and when it expires (milliseconds). Commit is one short transaction, or one statement:
//
//  1. Take the database's clock, not that of the transaction's begin.
//  2. Read the cells of all changes, those that are there for writing, in the order of their names, so that no two
//     commits wait for each other. A cell that has expired is none: version 0.
//  3. If a version is not Decided, or the clock is not from At to At+Slack, change nothing, and return the cells.
//  4. Otherwise write the changes whose Next is not 0. Where a cell was not there, the insertion must fail, or do nothing
//     and be noticed, if another process has inserted it in the meantime: then return the present cells.
//
// A commit has one key, most often alone or with one attempt, and at most MaxChanges changes. A Backend removes expired
// cells some time, if the database does not.
//
// # Cells
//
//	k rule 0 key      the window of a key, as package window writes it
//	a ID              what an attempt has counted at its first key, and the names of its other keys
//	a ID hash         what it has counted at another key
//	s                 the secret by which the IDs of requests are made
//
// The Group of a key is 16 bits of a hash of its name. An ID has the group of its first key, so that an attempt at one
// key is one commit of two cells. Keys expire when they count nothing any more, attempts after Config.Settle.
//
// # What holds
//
// At no instant have more hits of a key been admitted than its limits allow by the instants at which they were counted,
// whatever processes do, and wherever they stop. Those instants are the database's clock, up to Config.Slack behind it,
// and do not go back for a key. A commit that comes later than that is refused by the database. So an attempt that
// was given up does not count when a database that hung goes on. If the database loses its last writes, as in a failover,
// the hits in them are admitted once more.
//
// An attempt at several keys takes at each, and returns what it took where another refuses. In between others may be
// refused that would have been admitted; never are too many admitted. A key that is known to refuse is asked first, so
// that attempts that are refused again and again take nothing.
//
// Calls of one process for one key share commits: while one is under way, further attempts wait, and the next commit has
// all of them. So only processes compete, and each round one of them wins. A process that won although another was
// faster before waits about a round trip until its next commit, so that others win too.
//
// # Bounds
//
// A Store remembers the states of Config.Keys keys, to decide at once and with one round trip; of others the first
// attempt may take two. A key has at most mostWaiting attempts that wait; further ones fail with inline.ErrBusy. A call
// ends with its context, and starts at most a goroutine for each of its keys, which ends with the deadline of the last
// attempt that waits; an attempt at one key for which no other waits needs none. Close waits for them. State and memory
// of a key are those of its window: some 100 bytes, and up to 2 for each hit remembered.
package stored

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"weir/pkg/inline"
	"weir/pkg/window"
)

// A Config is what a Store is made of.
type Config struct {
	Backend Backend
	// Rule finds a rule by its name, or returns nil: attempts that another process has counted are settled by it.
	Rule func(name string) *inline.Rule
	// Keys are so many keys that are remembered; 100,000 unless given.
	Keys int
	// Settle is how long an attempt can be settled; 10 minutes unless given.
	Settle time.Duration
	// Slack is how old a decision may be when the database commits it; 20 ms unless given. It should not be less than the
	// time that callers wait.
	Slack time.Duration
	// History has commits write the rows of attempts: the Backend is a History. A Lister has them without it.
	History bool
}

// A Store decides in a database.
type Store struct {
	config  Config
	clock   clock
	mu      sync.Mutex // of keys
	keys    *simplelru.LRU[string, *key]
	secret  secret
	noted   bool // commits have attempts and settlements
	running sync.WaitGroup
}

var _ inline.Store = (*Store)(nil)

// New makes a Store. It asks the database nothing yet.
func New(c Config) *Store {
	c.Keys, c.Settle, c.Slack = cmp.Or(c.Keys, 100_000), cmp.Or(c.Settle, 10*time.Minute), cmp.Or(c.Slack, 20*time.Millisecond)
	keys, err := simplelru.NewLRU[string, *key](c.Keys, nil)
	if err != nil {
		panic(err) // of a number of keys that is negative
	}
	lister, ok := c.Backend.(Lister)
	return &Store{config: c, clock: clock{begun: time.Now()}, keys: keys, noted: c.History || ok && lister.Lists()}
}

// Close waits for commits that are under way. No call may be made afterwards. It does not close the Backend.
func (s *Store) Close() { s.running.Wait() }

// Settleable is how long an attempt can be settled.
func (s *Store) Settleable() time.Duration { return s.config.Settle }

// Stats counts the keys that are remembered.
func (s *Store) Stats() inline.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return inline.Stats{Keys: s.keys.Len()}
}

// Peek calls look with the window of a key as the database has it.
func (s *Store) Peek(ctx context.Context, rule *inline.Rule, of []byte, look func(s *window.State, at int64)) (known bool, err error) {
	name := nameOf(rule.Name, of)
	cells, now, err := s.config.Backend.Read(ctx, GroupOf(name), []string{name})
	if err != nil || cells[0].Version == 0 {
		return false, err
	}
	var state window.State
	if err := rule.Policy.Read(cells[0].State, &state); err != nil {
		return false, err
	}
	look(&state, max(now/1000, state.Newest()))
	return true, nil
}

// nameOf is the name of the cell of a key.
func nameOf(rule string, key []byte) string {
	b := make([]byte, 0, 2+len(rule)+len(key))
	return string(append(append(append(append(b, 'k'), rule...), 0), key...))
}

// GroupOf is the group of the cell of a key.
func GroupOf(name string) uint16 { return uint16(xxhash.Sum64String(name)) }

// key finds what is remembered of a key.
func (s *Store) key(name string) *key {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, known := s.keys.Get(name)
	if !known {
		k = &key{name: name, group: GroupOf(name)}
		s.keys.Add(name, k)
	}
	return k
}

var errNames = errors.New("the name of a key is too long")
