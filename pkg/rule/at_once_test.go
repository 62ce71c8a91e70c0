package rule_test

import (
	"strings"
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
		`rules: [{name: jobs, key: user, limits: [100/min, 20 at once], lease: 30s, ends: log, algorithm: token, inline: true}]`,
		`rules: [{name: jobs, key: user, limits: [100/min, 20/30s], algorithm: token, inline: true}]`,
	} {
		fingerprint := mustParse(t, other).Fingerprint()
		if seen[fingerprint] {
			t.Errorf("%s has the fingerprint of another", other)
		}
		seen[fingerprint] = true
	}
}

// The rules whose requests end with their lines are known by name, with the longest of their leases.
func TestRulesThatEndByTheLog(t *testing.T) {
	set := mustParse(t, `rules:
  - {name: a, key: ip, limits: [2 at once], lease: 30s, ends: log, inline: true}
  - {name: b, key: ip, limits: [2 at once], lease: 1h, inline: true}
  - {name: c, key: ip, limits: [2 at once], lease: 10m, ends: log, inline: true}
`)
	if names, lease := set.EndsByLog(); strings.Join(names, " ") != "a c" || lease != 10*time.Minute {
		t.Errorf("%v, %s", names, lease)
	}
	if names, lease := mustParse(t, `rules: [{name: b, key: ip, limits: [2 at once], lease: 1h, inline: true}]`).EndsByLog(); names != nil || lease != 0 {
		t.Errorf("%v, %s", names, lease)
	}
}
