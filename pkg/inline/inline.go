// Package inline decides attempts at the limits of rules while requests wait for the answer: an attempt that is one too
// many is refused, and counts nothing.
//
// An attempt may be at several limits at once, each a Want: either all admit it and all count it, or none does. The real
// cost of an attempt is settled afterwards, by its ID. A Store decides attempts; a Memory is one that has the windows of
// all keys in this process. Package stored has one whose windows several processes share in a database, and inlinetest
// has the tests for all of them.
//
// # What holds
//
// Of one key no more is admitted than its limits allow, however many goroutines ask (package window says what a limit
// allows by each algorithm). Time is the clock of the Store. A clock that is set back stands still until it has caught
// up. When limits change, keys keep what they have counted.
//
// # Bounds of a Memory
//
// A Memory has at most Config.Keys keys. A new one takes the place of one that counts nothing any more, else of one that
// was not asked for long: that key begins at zero, which Stats counts as Forgotten. An attempt can be settled for
// Config.Settle, and fewer than Config.Attempts others later; Stats counts those that were given up earlier as Lost.
//
// A Memory starts no goroutine, does no I/O and never fails. An attempt allocates nothing but the growth of its keys'
// windows.
package inline

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/pkg/window"
)

// A Store decides attempts. Any number of goroutines may use it; a Verdict and its Wants belong to one call at a time.
//
// The context is the time that an answer may take: when it is over, or the Store fails, a call returns an error, and
// the caller cannot know whether the attempt was counted. A refusal is no error. A Memory returns only ErrUnknown and
// ErrNotCounted.
type Store interface {
	// Take decides an attempt, and writes the answer to v.
	Take(ctx context.Context, v *Verdict, wants []Want) error
	// TakeOnce is Take for an attempt that is named by a text, and may be asked for again. While the attempt can be
	// settled, limits at which it has counted admit it and do not count it again: their Wants are Known, and cost 0. It
	// counts at other limits now. Clients may see the text, but cannot find the attempt's ID by it.
	TakeOnce(ctx context.Context, v *Verdict, request string, wants []Want) error
	// IDsOf are the IDs that TakeOnce may have given to the attempt that a text names.
	IDsOf(ctx context.Context, request string) ([]ID, error)
	// Settle sets what an attempt has cost, at all of its rules; with Kept the cost stays. It may be called again, also with
	// another cost. The first time it ends the attempt: limits at once do not count it any more, whatever it has cost.
	Settle(ctx context.Context, id ID, cost int64) error
	// SettleAt is Settle at one rule: the attempt's cost at the others stays as it is, and it ends at that one only.
	SettleAt(ctx context.Context, rule string, id ID, cost int64) error
	// Peek calls look with the window of a key and the time that it is of, unless the key is unknown.
	Peek(ctx context.Context, rule *Rule, key []byte, look func(s *window.State, at int64)) (known bool, err error)
	// Settleable is how long an attempt can be settled.
	Settleable() time.Duration
	// Stats are the sizes of the part of the Store that is in this process, and its losses so far.
	Stats() Stats
}

// Kept is a cost that settles nothing: the attempt ends, and has cost what it was counted for.
const Kept = -1

// A Rule is the limits of one rule.
type Rule struct {
	Name   string
	Policy *window.Policy
	Limits []string // as users know them, in the order of Policy; for a history
	Shadow bool     // it counts, and refuses nothing

	// OnError is the answer while a Store that is beyond this process fails; Answered is taken for Allow. Local, which is
	// nil unless OnError is Local, has this process's share of the limits.
	OnError OnError
	Local   *Rule

	Queue *Queue // nil without one
}

// A Queue is a stream of Redis that an attempt is put into when all limits admit it, if the stream has room. Its consumers
// remove the entries. Only a Store in Redis has queues.
type Queue struct {
	Stream string
	AtMost int64
	Limit  int // window.Taken.Limit of an answer that the queue decides
}

// MostQueued bounds Queue.AtMost. A rule in shadow mode puts requests into its stream up to MostShadowed entries beyond that.
const (
	MostQueued   = 1_000_000
	MostShadowed = 10_000
)

// NotKnown is when an attempt is admitted that a queue refuses: window.Taken.Again of it.
const NotKnown = window.Never - 1

// OnError is who answers an attempt: the Store, or what its rules say for the time that the Store fails.
type OnError uint8

// The answers.
const (
	Answered OnError = iota // by the Store
	Allow                   // admitted, and not counted
	Refuse                  // refused, and not counted
	Local                   // counted in this process
)

// String is the word for it, as in rules.
func (o OnError) String() string { return [...]string{"ok", "allow", "refuse", "local"}[o] }

// A Want is an attempt at the limits of one key.
type Want struct {
	Rule *Rule
	Key  []byte
	Cost int64 // 0 counts nothing

	// Fields are names and values for an entry of the rule's queue, one after the other.
	Fields []string

	Known bool // TakeOnce found that the attempt had counted this before
}

// A Moment is when a Store decided or settled: by its clock in Unix milliseconds, and by the place among all that it has
// decided and settled. The decisions about one key are in the order of their places. Both are 0 where a Store does not
// state them.
type Moment struct {
	At    int64
	Order uint64 // from 1 on
}

// A Verdict is the answer to an attempt, and the memory for making it: one that is used again allocates nothing.
type Verdict struct {
	Moment
	Admitted bool
	Attempt  ID             // to settle it by; zero where nothing was counted
	Decides  int            // the Want that refuses, or else has the fewest hits left; -1 without any
	Taken    []window.Taken // of each Want; of those that only others refused, as if nothing had been asked
	OnError  OnError        // of the Want that decides; of Allow and Refuse, Taken has neither Limit nor Remaining

	id    ID // the rest is the work space of a Memory
	names []byte
	found []found
	locks []uint8
}

// Begin makes a Verdict ready for the answers to some Wants. It is for those who write a Store.
func (v *Verdict) Begin(wants []Want) {
	v.Moment, v.Admitted, v.Attempt, v.Decides, v.OnError = Moment{}, true, ID{}, -1, Answered
	v.Taken = slices.Grow(v.Taken[:0], len(wants))[:len(wants)]
}

// Decide finds by Taken whether all that enforce admit the attempt, and the Want that the answer is about. It is for
// those who write a Store.
func (v *Verdict) Decide(wants []Want) {
	for i := range wants {
		v.Admitted = v.Admitted && (v.Taken[i].Admitted || wants[i].Rule.Shadow)
		if v.Decides < 0 || v.before(wants, i, v.Decides) {
			v.Decides = i
		}
	}
}

// before reports whether the answer is about the i-th Want rather than the j-th.
func (v *Verdict) before(wants []Want, i, j int) bool {
	if shadow := wants[j].Rule.Shadow; shadow != wants[i].Rule.Shadow {
		return shadow
	}
	one, other := &v.Taken[i], &v.Taken[j]
	switch {
	case one.Admitted != other.Admitted:
		return other.Admitted
	case one.Admitted:
		return one.Remaining < other.Remaining
	}
	return one.Again > other.Again
}

// ErrUnknown reports an attempt that cannot be settled: it is too old, was refused, or was decided elsewhere.
var ErrUnknown = errors.New("no such attempt")

// ErrNotCounted reports that a rule has counted nothing of an attempt, so that there is nothing to settle.
var ErrNotCounted = errors.New("the rule has counted nothing of the attempt")

// ErrBusy reports that a Store works, but could not decide in time because too many others ask for the same key.
var ErrBusy = errors.New("too many attempts at one key")

// Stats are the sizes of a Memory, and its losses so far. Keys that count nothing any more and attempts that are too old
// to be settled are among the sizes until others take their place.
type Stats struct {
	Keys, Attempts  int
	Forgotten, Lost int64
}
