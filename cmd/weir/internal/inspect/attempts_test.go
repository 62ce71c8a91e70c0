package inspect

import (
	"testing"

	"weir/cmd/weir/internal/shown"
	"weir/pkg/attempts"
)

// Of a failed attempt nothing is known of any limit.
func TestAttemptText(t *testing.T) {
	at := attempts.Instant(1_772_524_800_000)
	for want, r := range map[string]attempts.Record{
		"2026-03-03T08:00:00Z  refused  jobs alice: failed, the store did not answer": {Kind: attempts.Attempt, Time: at, Store: "refuse",
			Takes: []attempts.Take{{Rule: "jobs", Key: "alice", Cost: 1, Verdict: attempts.Failed, Limit: "2 queued"}}},
		"2026-03-03T08:00:00Z  refused  jobs alice: refused, 0 of 2 queued remain, cost 3": {Kind: attempts.Attempt, Time: at,
			Takes: []attempts.Take{{Rule: "jobs", Key: "alice", Cost: 3, Verdict: attempts.Refused, Limit: "2 queued"}}},
	} {
		if got := attemptText(&r, shown.Times{}); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
