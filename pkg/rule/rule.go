package rule

import (
	"time"

	"weir/internal/yamlfile"
	"weir/pkg/window"
)

// A Set is rules and what they leave alone. It never changes and is safe for concurrent use.
type Set struct {
	Rules  []*Rule
	Allows []*Allow

	files       []string
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
	limits := make([]window.Limit, len(r.Limits))
	for i, limit := range r.Limits {
		limits[i] = limit.Limit
	}
	return window.New(window.Config{
		Algorithm: r.Algorithm, Limits: limits, Late: late, Remember: remember, Subwindows: r.Subwindows, Burst: r.Burst,
		Block: window.Block{For: r.Block.For, Then: r.Block.Then, Forget: r.Block.Forget, Extend: r.Block.Extend},
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

// Fingerprint is a hash of all that decides: it is the same for files that differ in comments, the order of keys, the
// writing of expressions, descriptions and notes, and another when any decision or the order of rules may be.
func (s *Set) Fingerprint() string { return s.fingerprint }

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
