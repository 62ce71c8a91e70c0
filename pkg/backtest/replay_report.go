package backtest

import "weir/pkg/rule"

// A ReplayReport is what a replay has decided.
type ReplayReport struct {
	Attempts    int64        `json:"attempts"`
	Settlements int64        `json:"settlements"`
	First       Instant      `json:"first"`
	Last        Instant      `json:"last"`
	Unread      int64        `json:"unread"` // lines that are no records
	Rules       []ReplayRule `json:"rules"`
	// LeftOut are attempts at rules that are not among these, or not inline, by their names.
	LeftOut     map[string]int64   `json:"left_out"`
	Differences []ReplayDifference `json:"differences"` // the first ones
	Algorithms  []ReplayAlgorithm  `json:"algorithms,omitempty"`

	rules []*rule.Rule // of Rules
}

// A ReplayRule is what became of the attempts at one rule.
type ReplayRule struct {
	Rule        string           `json:"rule"`
	Verdicts    map[string]int64 `json:"verdicts"`
	Given       map[string]int64 `json:"given"` // the verdicts that were given
	Differences int64            `json:"differences"`
}

// A ReplayAlgorithm is what the same rules have decided under an algorithm.
type ReplayAlgorithm struct {
	Algorithm string       `json:"algorithm"`
	Rules     []ReplayRule `json:"rules"`
}

// A ReplayDifference is a verdict that is not the one that was given.
type ReplayDifference struct {
	Time  Instant `json:"time"`
	Rule  string  `json:"rule"`
	Key   string  `json:"key"`
	Given string  `json:"given"`
	Now   string  `json:"now"`
}
