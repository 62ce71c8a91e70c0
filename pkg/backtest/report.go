package backtest

import (
	"encoding/json"
	"io"
	"time"

	"weir/pkg/evidence"
	"weir/pkg/rule"
)

// An Instant is a time in Unix milliseconds, written as RFC 3339 in UTC with the source's precision: full seconds
// without a fraction, all others with three digits.
type Instant int64

func (i Instant) String() string {
	t := time.UnixMilli(int64(i)).UTC()
	if i%1000 == 0 {
		return t.Format("2006-01-02T15:04:05Z")
	}
	return t.Format("2006-01-02T15:04:05.000Z")
}

// MarshalText returns the text of String.
func (i Instant) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// A ReadReport has the numbers of what was read. The JSON forms of reports begin with it.
type ReadReport struct {
	Requests int64            `json:"requests"`           // read
	Filtered int64            `json:"filtered,omitempty"` // requests that only of the source does not select
	Unread   map[string]int64 `json:"unread"`             // lines that could not be read, by reason
	Seen     int64            `json:"seen,omitempty"`     // of the requests, those that were seen before, and do not count
	From     *Instant         `json:"from"`               // of the oldest request read; nil when there is none
	To       *Instant         `json:"to"`
}

// An InputsReport has where that was read. The JSON forms of reports end with it.
type InputsReport struct {
	Inputs  []InputReport `json:"inputs"`  // in the order in which they were read
	Samples []Sample      `json:"samples"` // of lines that could not be read: the first of each reason
	Faults  []string      `json:"faults"`  // errors of inputs, each with its input: a truncated file
}

// A Report is the result of Run. Its JSON form is the documented output of `weir backtest --json`.
type Report struct {
	ReadReport
	Refused int64        `json:"refused"` // requests that one or more enforcing rules would have refused
	Rules   []RuleReport `json:"rules"`

	Against    *AgainstReport    `json:"against,omitempty"`
	Algorithms []AlgorithmReport `json:"algorithms,omitempty"`
	FailIf     *ConditionReport  `json:"fail_if,omitempty"`
	Never      *NeverReport      `json:"never,omitempty"`

	InputsReport

	plot     *series        // the requests over time
	crawlers []rule.Crawler // that the rules allow, and that count here
	once     bool           // an input could not be read again for the requests of the worst keys
}

// modeEnforce is the mode of rules that refuse.
var modeEnforce = rule.Enforce.String()

// A RuleReport is what one rule would have done.
type RuleReport struct {
	Rule      string           `json:"rule"`
	Mode      string           `json:"mode"` // enforce or shadow
	Algorithm string           `json:"algorithm"`
	Key       string           `json:"key"` // the counted key, as in the rules
	Limits    []string         `json:"limits"`
	Keys      int64            `json:"keys"`             // distinct keys that were hit
	Requests  int64            `json:"requests"`         // that counted under the rule, those refused included
	Refused   int64            `json:"refused"`          // of them, those inside a block
	Uncounted map[string]int64 `json:"uncounted"`        // requests read that did not count under the rule, by reason
	Blocked   []Blocked        `json:"blocked"`          // keys that broke a limit, by First, then Key
	Inline    bool             `json:"inline,omitempty"` // the rule is decided inline, and left out here
}

// leftOut is the sentence about a rule that is decided inline.
func leftOut(name string) string { return "rule " + name + " is decided inline; it is left out here" }

// A Blocked is a key that broke a limit.
type Blocked struct {
	Key      string  `json:"key"`
	First    Instant `json:"first"`    // the hit that broke a limit first
	Limit    string  `json:"limit"`    // the limit it broke
	Peak     int64   `json:"peak"`     // the most hits in any span of that limit's length, refused ones included
	Requests int64   `json:"requests"` // all of the key's
	Refused  int64   `json:"refused"`  // of them, those inside a block
	Blocks   int64   `json:"blocks"`   // how many blocks began

	Group *GroupReport `json:"group,omitempty"` // of a rule that counts blocks: the addresses of the network

	allowed  int64              // hits that the limit allows
	per      int64              // milliseconds
	timeline *series            // from the first break on; nil if it was not kept
	evidence []evidence.Request // the last requests that counted until First, newest first; of the worst keys only
}

// An AgainstReport is the difference between Config.Against (before) and Config.Rules (after).
type AgainstReport struct {
	Refused int64        `json:"refused"` // before
	Rules   []RuleReport `json:"rules"`   // before
	Changes []RuleChange `json:"changes"`
}

// A RuleChange compares two rules: those of one name, then those that count by the same key. Before or After is empty
// if a rule has no counterpart.
type RuleChange struct {
	Before     string      `json:"before"`
	After      string      `json:"after"`
	OnlyBefore []Blocked   `json:"only_before"` // keys blocked before and not any more
	OnlyAfter  []Blocked   `json:"only_after"`  // keys blocked now and not before
	Changed    []KeyChange `json:"changed"`     // keys blocked in both, but from another time, by another limit, or refused more or less
	Same       int64       `json:"same"`        // keys blocked in both without a difference
}

// A KeyChange is a key blocked before and after, with a difference.
type KeyChange struct {
	Key    string  `json:"key"`
	Before Blocked `json:"before"`
	After  Blocked `json:"after"`
}

// An AlgorithmReport is the result of the rules under another algorithm.
type AlgorithmReport struct {
	Algorithm  string       `json:"algorithm"`
	Blocked    int64        `json:"blocked"`     // keys, over all rules
	Refused    int64        `json:"refused"`     // requests that one or more enforcing rules would have refused
	StateBytes int64        `json:"state_bytes"` // memory of all keys' states at the end
	HitNanos   float64      `json:"hit_nanos"`   // time per hit, measured over batches of hits
	Rules      []RuleReport `json:"rules"`

	plot *series // the requests over time; nil if they are not kept
}

// An InputReport counts the lines of one input.
type InputReport struct {
	Input    string           `json:"input"`
	Format   string           `json:"format"`          // as given, or as chosen with the reason
	Doubt    string           `json:"doubt,omitempty"` // two members of JSON may have the client's address, and how to choose
	Requests int64            `json:"requests"`
	Unread   map[string]int64 `json:"unread"`
}

// A Sample is a line that could not be read, shortened, with secrets masked.
type Sample struct {
	Reason string `json:"reason"`
	Input  string `json:"input"`
	Line   int64  `json:"line"` // 1 is the first
	Text   string `json:"text"`
}

// A ConditionReport is the result of Config.FailIf, with its figures.
type ConditionReport struct {
	Condition string `json:"condition"`
	Holds     bool   `json:"holds"`
	Found     string `json:"found"` // "refused is 1,234 of 797,666 (0.155%)"
}

// A NeverReport names the keys that must never be blocked and were blocked.
type NeverReport struct {
	Keys       int         `json:"keys"` // listed
	Violations []Violation `json:"violations"`
}

// A Violation is one key that was blocked and must not be blocked.
type Violation struct {
	Rule  string  `json:"rule"`
	Mode  string  `json:"mode"` // of the rule
	Key   string  `json:"key"`
	First Instant `json:"first"`
	Limit string  `json:"limit"`
	Line  int     `json:"line"`  // of the list
	Entry string  `json:"entry"` // that stands there
}

// Failed reports whether the condition is true or a key was blocked that must not be.
func (r *Report) Failed() bool {
	return r.FailIf != nil && r.FailIf.Holds || r.Never != nil && len(r.Never.Violations) > 0
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
