// Package rule defines rules: which requests count, by which key, how many are allowed, and what happens then.
//
// Load reads rules files (docs/rules.md documents every word of them) into a Set, or returns all errors at once, each
// with its place and its remedy. A Set never changes and is safe for concurrent use; a Judge of it, which one goroutine
// uses, finds the hits of requests. Nothing here reads a clock or starts a goroutine, and only loading touches the
// disk. The same Set gives the same hits for the same request, byte for byte; Fingerprint changes whenever they may.
//
// A Judge checks in this order, a rule at a time: whether an allow entry leaves the request alone, whether match is
// true, whether the request counts (served), whether it has the parts of the key, and whether its cost is at least 1.
// If a check fails there is no hit, and the Judge counts why (Reason). A request is one hit of a rule at most.
//
// An inline rule is decided by an enforcer before the request is served: Judge.Inline and Judge.HitOf find its hits.
// Judge.Hits, which is for requests of a log, leaves it alone unless it has also: log.
//
// Keys have one form, which all parts of Weir share. It identifies the key in the log, the store and the blocklist:
//
//   - An address is written as netip does: 203.0.113.7, 2001:db8::1; a prefix masked: 203.0.113.0/24. IPv4 inside
//     IPv6 is IPv4, zones are dropped. ip alone is ip/32+64: IPv4 addresses are bare, IPv6 addresses are their /64.
//
//   - A host is in lower case (ASCII) without port, brackets and trailing dot.
//
//   - Other text is unchanged, except text that cannot be printed: a backslash is \\, and each byte of a character that
//     is not printable, or of no character, is \xNN.
//
//   - The parts of a list stand in its order with one space between; a space within a part is \x20.
//
//   - A key over MaxKeyBytes is its first bytes (cut between characters), "…#", and half of the SHA-256 of the complete
//     key in hex. "…#" cannot stand in another key: in a value it is escaped.
//
//   - In a rule with secret: true, a part that is no address, host, path, method or status is "#" and 20 hex digits of
//     its HMAC-SHA256 by the key in secret_file. No part stores or shows its value.
//
// So two requests have the same key if and only if they have the same parts (except two cut keys with a collision of
// 128 bits of SHA-256), and Key.Fields returns the parts. A request that lacks a part, or has it empty, has no key.
//
// Expressions are github.com/expr-lang/expr, checked against the fields of a request when they are read. They run as
// closures, in some ten nanoseconds and without allocating (except lower and upper when they change something).
// Expressions that closures cannot run (arrays, let, concatenation, patterns that are not constant) run in expr's
// virtual machine, which takes some hundreds of nanoseconds and allocates. An expression that fails on a request, as by
// dividing by zero, makes no hit, is counted as Failed, and allows nothing.
//
// A Judge keeps memory for one request: its keys, at most MaxKeyBytes a rule, and the memory for escaping one long
// value. With secret rules it also remembers up to 64 values and their hashes.
package rule

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"weir/internal/yamlfile"
	"weir/pkg/geoip"
	"weir/pkg/inline"
	"weir/pkg/request"
	"weir/pkg/window"
)

// A Set is rules and allow entries. It never changes and is safe for concurrent use.
type Set struct {
	Rules  []*Rule
	Allows []*Allow
	Paths  request.PathForm // the form of path in matches and keys

	// Crawlers are those that allow names. An enforcer lets their addresses through; all other readers of the rules treat
	// their requests like any others.
	Crawlers []Crawler

	files       []string
	embedded    Embedded
	inline      []int // indexes of the inline rules
	fingerprint string
	allowed     *allowed
	secret      *secret          // nil when no rule is secret
	hides       []string         // fields whose values are secret
	databases   *geoip.Databases // of addresses; nil when they are not known
	places      *geoip.Databases // those of them that rules use; nil for none

	allowedSystems []map[uint32]bool // by index in Allows: the autonomous systems of its addresses; nil unless a group rule counts by them
}

// A Rule defines which requests count, by which key, how many are allowed and what happens then.
type Rule struct {
	Name        string
	Description string
	Match       string // the expression as written; empty when every request counts
	Key         Key
	Above       string         // the group rule whose blocks leave what this one counts; "" counts all
	Distinct    Key            // what different values are counted of; without parts, hits are counted
	Lateness    *time.Duration // how late a request may be and count, where different values are estimated; nil as late as for all rules
	Share       *Share         // the limit is of the share of requests that meet a condition; nil without
	Limits      []Limit        // at least one
	Algorithm   window.Algorithm
	Subwindows  int    // of the counter algorithm
	Burst       int64  // of token and uniform; 0 is the algorithm's default
	Cost        string // the expression as written; "1" unless given
	Count       Count
	Block       Block
	Mode        Mode
	Remember    int                // hits of a key that are remembered; 0 is window.DefaultRemember
	Inline      bool               // decided by an enforcer before the request is served
	AlsoLog     bool               // collectors and aggregators count an inline rule too
	OnError     inline.OnError     // of an inline rule, while its store fails
	Lease       time.Duration      // how long a limit at once counts a request that reports no end; 0 without such a limit
	EndsByLog   bool               // a request ends for a limit at once when the log has its line, besides when it is settled
	Try         []window.Algorithm // that judge the attempts of an inline rule too; they decide nothing
	Queue       *inline.Queue      // of an inline rule; nil without one. Its bound is the last of Limits
	Evidence    int                // how many of the last requests that counted are kept with an entry; it decides nothing
	Secret      bool               // users, headers and other fields of its keys are hashed
	Guard       Guard              // bounds how many new blocks are enforced

	match, cost *expression // nil: every request, one hit
	onBlocked   bool        // it counts the blocks of other rules
	passes      bool        // of those: rules stand above it
	counted     bool        // of those: as aggregators count it
	ofAttempts  bool        // match reads the verdict or the rule of attempts: it counts these, and no requests of logs
	refusals    *Rule       // how refused attempts are counted; nil for rules without block: {after: …}
	cover       *expression // match as far as it can be decided before the response; nil covers all
	valuesBy    *secret     // the key of the hashes of values; nil for plain ones
	place       yamlfile.Fault
	tryPlace    yamlfile.Fault
	abovePlace  yamlfile.Fault
}

// A Block defines the consequence of a broken limit.
type Block struct {
	For    time.Duration   // how long the first offence lasts; may be window.Forever
	Then   []time.Duration // how long the second, third … lasts; the last one also for all later ones
	Forget time.Duration   // after this long without a block the next offence is the first again
	Extend bool            // hits inside the block count, and one that breaks a limit moves its end
	Clear  bool            // it lasts until the window would admit a hit, and For at least
	Covers Covers

	// After so many refused attempts of an inline rule within this time a block begins; 0 is never.
	After  int64
	Within time.Duration
}

// The defaults of a rule.
const (
	DefaultFor        = 10 * time.Minute
	DefaultForget     = 24 * time.Hour
	DefaultSubwindows = 10
	DefaultEvidence   = 5
)

// MaxEvidence is how many requests are kept with an entry at most.
const MaxEvidence = 20

// MaxCost is the maximum cost of one request; a larger result of an expression counts as MaxCost.
const MaxCost = 1_000_000_000

// A Mode is the consequence of a broken limit.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota // the key is refused
	Shadow              // the block is decided and shown, and the key is never refused
)

// A Count defines which requests count.
type Count uint8

// The counts.
const (
	All    Count = iota // every request
	Served              // those that no enforcer refused
)

// A Covers defines which requests of a blocked key are refused.
type Covers uint8

// The covers.
const (
	CoversAll   Covers = iota // every request of the key
	CoversMatch               // those for which the rule's match is true
)

var (
	modeWords   = []string{"enforce", "shadow"}
	countWords  = []string{"all", "served"}
	coversWords = []string{"all", "match"}
)

func (m Mode) String() string   { return modeWords[m] }
func (c Count) String() string  { return countWords[c] }
func (c Covers) String() string { return coversWords[c] }

// Policy defines how the hits of each of the rule's keys are counted; late is how late a hit may come, and remember the
// exactness bound, 0 for the default.
func (r *Rule) Policy(late time.Duration, remember int) (*window.Policy, error) {
	c := r.windowConfig()
	c.Late, c.Remember, c.Ones = r.Late(late), cmp.Or(remember, r.Remember), r.cost == nil
	c.AtOnce = nil // inline rules have these, and are not counted in this way
	c.Block = window.Block{For: r.Block.For, Then: r.Block.Then, Forget: r.Block.Forget, Extend: r.Block.Extend, Clear: r.Block.Clear}
	return window.New(c)
}

// windowConfig is the limits and how they are counted.
func (r *Rule) windowConfig() window.Config {
	limits := make([]window.Limit, 0, len(r.Limits))
	for i, limit := range r.Limits {
		switch {
		case !limit.Queued:
			limits = append(limits, limit.Limit)
		case i == 0: // a window needs a limit, and this one is never reached
			limits = append(limits, window.Limit{Hits: maxHits, Per: time.Second})
		}
	}
	return window.Config{Algorithm: r.Algorithm, Limits: limits, Subwindows: r.Subwindows, Burst: r.Burst, AtOnce: atOnce(r.Limits), Distinct: r.distinctOf(), Share: r.Share.window(), Members: r.CountsBlocks(), Passes: r.passes, Shift: r.MemberShift()}
}

// Rule is the rule of a name, and its index in Rules; nil and -1 when there is none.
func (s *Set) Rule(name string) (*Rule, int) {
	for i, r := range s.Rules {
		if r.Name == name {
			return r, i
		}
	}
	return nil, -1
}

// Files are the files that the set was read from, including the allow entries' prefix files.
func (s *Set) Files() []string { return s.files }

// An Embedded is the rules within a configuration: the configuration's file, and a rules file with the same rules.
type Embedded struct {
	File string
	Text []byte
}

// Embedded is the text of the set if its rules stand in a configuration; else it is empty. The files that such rules
// name are in Files.
func (s *Set) Embedded() Embedded { return s.embedded }

// Fingerprint is a hash of all deciding parts. It is the same for files that differ only in comments, the order of
// keys, the writing of expressions, descriptions and notes. It changes when any decision or the order of rules may
// change.
func (s *Set) Fingerprint() string { return s.fingerprint }

// Sparing is the set with one more allow entry, of these prefixes and for all rules, for readers of Allows. Its Judges
// are those of the original set.
func (s *Set) Sparing(prefixes []netip.Prefix) *Set {
	sparing := *s
	sparing.Allows = append(slices.Clone(s.Allows), &Allow{Prefixes: prefixes})
	return &sparing
}

// Shadowed is the set with every rule in shadow mode.
func (s *Set) Shadowed() *Set { return s.with(func(_ int, r *Rule) { r.Mode = Shadow }) }

// WithLimits is the set with other limits of its rules, by their index; a rule without any keeps its own.
func (s *Set) WithLimits(limits [][]Limit) *Set {
	return s.with(func(i int, r *Rule) {
		if len(limits[i]) > 0 {
			r.Limits = r.Phrased(limits[i])
		}
	})
}

// Sliding is the set with every rule under the sliding algorithm.
func (s *Set) Sliding() *Set {
	return s.with(func(_ int, r *Rule) { r.Algorithm, r.Burst = window.Sliding, 0 })
}

// with is the set with its rules changed.
func (s *Set) with(change func(i int, r *Rule)) *Set {
	changed := *s
	changed.Rules = make([]*Rule, len(s.Rules))
	for i, r := range s.Rules {
		copied := *r
		change(i, &copied)
		copied.refusals = copied.countsRefusals()
		changed.Rules[i] = &copied
	}
	changed.fingerprint = fingerprint(&changed)
	return &changed
}
