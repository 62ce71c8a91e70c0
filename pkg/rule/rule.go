// Package rule says what is limited: which requests count, per what, how many are allowed, and what follows.
//
// Load reads rules files (docs/rules.md has every word of them) into a Set, or tells all that is wrong with them at
// once, each fault with its place and its remedy. A Set never changes and is safe for concurrent use; a Judge of it,
// which one goroutine uses, finds the hits of requests. Nothing here reads a clock or starts a goroutine, and only
// loading touches the disk. The same Set gives the same hits for the same request, byte for byte; Fingerprint changes
// whenever they may.
//
// A Judge asks in this order, a rule at a time: does an allow entry leave the request alone, does match hold, does the
// request count (served), has it the parts of the key, is its cost at least 1. Where one says no there is no hit, and
// the Judge counts why (Reason). A request is one hit of a rule at most.
//
// Keys have one form, which all parts share and which is the key's identity in the log, the store and the blocklist:
//
//   - An address is written as netip does: 203.0.113.7, 2001:db8::1; a prefix masked: 203.0.113.0/24. IPv4 inside
//     IPv6 is IPv4, zones are dropped. ip alone is ip/32+64: IPv4 addresses are bare, IPv6 addresses are their /64.
//   - A host is in lower case (ASCII) without port, brackets and the dot at its end.
//   - Other text is as it is, but for what cannot be printed: a backslash is \\, and each byte of a character that is
//     not printable, or of no character, is \xNN.
//   - The parts of a list stand in its order with one space between; a space within a part is \x20.
//   - A key over MaxKeyBytes is its first bytes (cut between characters), "…#", and half of the SHA-256 of the whole
//     in hex. The mark cannot stand in another key: of a value it is escaped.
//
// So two requests have the same key if and only if they have the same parts (two that were cut, but for a collision of
// 128 bits of SHA-256), and Key.Fields gives the parts back. A request that lacks a part, or has it empty, has no key.
//
// Expressions are github.com/expr-lang/expr, checked against the fields of a request when they are read. They run as
// closures, in some ten nanoseconds and without allocating (but for lower and upper where they change something). What
// closures cannot do (arrays, let, concatenation, patterns that are not constant) runs in expr's virtual machine, which
// takes some hundreds and allocates. One that fails on a request, as by dividing by zero, makes no hit, is counted as
// Failed, and allows nothing.
//
// A Judge keeps memory for one request: its keys, at most MaxKeyBytes a rule, and what escaping one long value takes.
package rule

import (
	"net/netip"
	"slices"
	"time"

	"weir/internal/yamlfile"
	"weir/pkg/request"
	"weir/pkg/window"
)

// A Set is rules and what they leave alone. It never changes and is safe for concurrent use.
type Set struct {
	Rules  []*Rule
	Allows []*Allow
	Paths  request.PathForm // what path means in matches and keys

	files       []string
	inline      Inline
	fingerprint string
	allowed     *allowed
}

// A Rule says which requests count, per what, how many are allowed and what follows.
type Rule struct {
	Name        string
	Description string
	Match       string // the expression as written; empty when every request counts
	Key         Key
	Limits      []Limit // at least one
	Algorithm   window.Algorithm
	Subwindows  int    // of the counter algorithm
	Burst       int64  // of token and uniform; 0 is the algorithm's default
	Cost        string // the expression as written; "1" unless given
	Count       Count
	Block       Block
	Mode        Mode
	Remember    int // hits of a key that are remembered; 0 is window.DefaultRemember

	match, cost *expression // nil: every request, one hit
	cover       *expression // match as far as it can be told before the response; nil covers all
	place       yamlfile.Fault
}

// A Block says what follows when a limit is broken.
type Block struct {
	For    time.Duration   // how long the first offence lasts; may be window.Forever
	Then   []time.Duration // how long the second, third … lasts; the last one for all that follow
	Forget time.Duration   // after this long without a block the next offence is the first again
	Extend bool            // hits inside the block count, and one that breaks a limit moves its end
	Clear  bool            // it lasts until the window would admit a hit, and For at least
	Covers Covers
}

// What a rule has that does not say otherwise.
const (
	DefaultFor        = 10 * time.Minute
	DefaultForget     = 24 * time.Hour
	DefaultSubwindows = 10
)

// MaxCost is the most that one request can cost; what an expression says beyond it is taken for it.
const MaxCost = 1_000_000_000

// A Mode says what is done about a broken limit.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota // the key is refused
	Shadow              // it is decided and shown, and never refused
)

// A Count says which requests count.
type Count uint8

// The counts.
const (
	All    Count = iota // every request
	Served              // those that no enforcer refused
)

// Covers says what of a blocked key is refused.
type Covers uint8

// What a block covers.
const (
	CoversAll   Covers = iota // every request of the key
	CoversMatch               // those that the rule's match holds for
)

var (
	modeWords   = []string{"enforce", "shadow"}
	countWords  = []string{"all", "served"}
	coversWords = []string{"all", "match"}
)

func (m Mode) String() string   { return modeWords[m] }
func (c Count) String() string  { return countWords[c] }
func (c Covers) String() string { return coversWords[c] }

// Policy is what the hits of each of the rule's keys are counted with; late is how late a hit may come, and remember
// the exactness bound, 0 for the default.
func (r *Rule) Policy(late time.Duration, remember int) (*window.Policy, error) {
	if remember == 0 {
		remember = r.Remember
	}
	limits := make([]window.Limit, len(r.Limits))
	for i, limit := range r.Limits {
		limits[i] = limit.Limit
	}
	return window.New(window.Config{
		Algorithm: r.Algorithm, Limits: limits, Late: late, Remember: remember, Subwindows: r.Subwindows, Burst: r.Burst, Ones: r.cost == nil,
		Block: window.Block{For: r.Block.For, Then: r.Block.Then, Forget: r.Block.Forget, Extend: r.Block.Extend, Clear: r.Block.Clear},
	})
}

// Rule is the rule of a name, and where it stands in Rules; nil and -1 when there is none.
func (s *Set) Rule(name string) (*Rule, int) {
	for i, r := range s.Rules {
		if r.Name == name {
			return r, i
		}
	}
	return nil, -1
}

// Files are the files that the set was read from, the allow entries' prefix files too.
func (s *Set) Files() []string { return s.files }

// An Inline is rules that stand in a configuration: the configuration's file, and a rules file that says the same.
type Inline struct {
	File string
	Text []byte
}

// Inline is what the set was made of where its rules stand in a configuration; else it is empty. The files that such
// rules name are in Files.
func (s *Set) Inline() Inline { return s.inline }

// Fingerprint is a hash of all that decides: it is the same for files that differ in comments, the order of keys, the
// writing of expressions, descriptions and notes, and another when any decision or the order of rules may be.
func (s *Set) Fingerprint() string { return s.fingerprint }

// Sparing is the set with one allow entry more, of these prefixes and for all rules, for those who read Allows. Judges of it
// are those of the set itself.
func (s *Set) Sparing(prefixes []netip.Prefix) *Set {
	sparing := *s
	sparing.Allows = append(slices.Clone(s.Allows), &Allow{Prefixes: prefixes})
	return &sparing
}

// Shadowed is the set with every rule in shadow mode.
func (s *Set) Shadowed() *Set {
	shadowed := *s
	shadowed.Rules = make([]*Rule, len(s.Rules))
	for i, r := range s.Rules {
		copied := *r
		copied.Mode = Shadow
		shadowed.Rules[i] = &copied
	}
	shadowed.fingerprint = fingerprint(&shadowed)
	return &shadowed
}
