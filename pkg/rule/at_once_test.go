package rule_test

import (
	"testing"
	"time"

	"weir/pkg/window"
)

// A limit at once is one of the rule's limits, and its time is the lease. Its share is a part, as of other limits.
func TestAtOnce(t *testing.T) {
	const text = `rules: [{name: jobs, key: user, limits: [100/min, " 20  at once"], lease: 30s, algorithm: token, inline: true}]`
	set := mustParse(t, text)
	jobs := set.Rules[0]
	limit := jobs.Limits[1]
	if limit.Text != "20 at once" || !limit.AtOnce || limit.Hits != 20 || limit.Per != 30*time.Second || jobs.Limits[0].AtOnce || jobs.Lease != 30*time.Second {
		t.Fatalf("%+v", jobs)
	}
	whole, err := jobs.InlinePolicy()
	if err != nil {
		t.Fatal(err)
	}
	share, err := jobs.InlineShare(4)
	if err != nil {
		t.Fatal(err)
	}
	for policy, want := range map[*window.Policy]int64{whole: 20, share: 5} {
		var s window.State
		taken := policy.Take(&s, 1_700_000_000_000, 1)
		if got := policy.Take(&s, taken.At, want); got.Admitted || got.Limit != 1 || got.Again != taken.At+30_000 || !policy.AtOnce() {
			t.Errorf("one too many of %d: %+v", want, got)
		}
	}
	// Collectors and backtests of logs do not count the rule, but make its policy.
	if policy, err := jobs.Policy(time.Minute, 0); err != nil || policy.AtOnce() {
		t.Errorf("of a log: %v", err)
	}

	seen := map[string]bool{set.Fingerprint(): true}
	for _, other := range []string{
		`rules: [{name: jobs, key: user, limits: [100/min, 20 at once], lease: 31s, algorithm: token, inline: true}]`,
		`rules: [{name: jobs, key: user, limits: [100/min, 20/30s], algorithm: token, inline: true}]`,
	} {
		fingerprint := mustParse(t, other).Fingerprint()
		if seen[fingerprint] {
			t.Errorf("%s has the fingerprint of another", other)
		}
		seen[fingerprint] = true
	}
}
