package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/pkg/rule"
)

// The guard at the top is that of each rule of the file without one of its own, if the rule blocks anyone.
func TestGuardOfAFile(t *testing.T) {
	set := mustParse(t, `
guard: {most_new: 500/min, most_share: 2%}
rules:
  - {name: usual, key: ip, limits: [1/s]}
  - {name: own, key: ip, limits: [1/s], guard: {most_new: "50 / 1min"}}
  - {name: none, key: ip, limits: [1/s], guard: off}
  - {name: quota, key: ip, limits: [1/s], inline: true}
  - {name: refused, key: ip, limits: [1/s], inline: true, block: {after: 3, within: 1m}}
  - {name: share, key: ip, limits: [1/s], guard: {most_share: 0.5 %}}
  - {name: both, key: ip, limits: [1/s], guard: {most_new: 50/min, most_share: 10%}}
`)
	usual := rule.Guard{MostNew: 500, MostShare: 2}
	for i, want := range []rule.Guard{usual, {MostNew: 50}, {}, {}, {MostNew: 500}, {MostShare: 0.5}, {MostNew: 50, MostShare: 10}} {
		if got := set.Rules[i].Guard; got != want {
			t.Errorf("%s: %+v, want %+v", set.Rules[i].Name, got, want)
		}
	}
	if counted, _ := set.Counted().Rule("refused"); counted.Guard.MostNew != 500 {
		t.Errorf("its refusals are counted with %+v", counted.Guard)
	}
	if unguarded := mustParse(t, "rules: [{name: usual, key: ip, limits: [1/s]}]"); unguarded.Fingerprint() == mustParse(t, "rules: [{name: usual, key: ip, limits: [1/s], guard: {most_new: 5/min}}]").Fingerprint() {
		t.Error("a guard does not change the fingerprint, so that aggregators would not take it over")
	}
}

// A share is at least the part, and never more than all.
func TestShareOfAGuard(t *testing.T) {
	for _, c := range []struct {
		most       int64
		partitions int
		want       int64
	}{{500, 0, 500}, {500, 1, 500}, {500, 2, 298}, {500, 16, 49}, {1, 16, 1}, {10, 16, 3}, {0, 16, 0}} {
		if got := (rule.Guard{MostNew: c.most}).Share(c.partitions); got != c.want {
			t.Errorf("%d in %d partitions: %d, want %d", c.most, c.partitions, got, c.want)
		}
	}
}

// A client that chooses its keys can use up the guard of a rule alone, and weir check says so.
func TestGuardsThatAClientTrips(t *testing.T) {
	for rules, want := range map[string]string{
		"{name: a, key: ip}":                                          "",
		"{name: a, key: ip, block: {for: forever}}":                   "", // a guarded key that goes on is counted again
		"{name: a, key: [ip, path]}":                                  "counts by path",
		"{name: a, key: [ip, agent]}, {name: b, key: ip}":             "the rule a has a guard and counts by agent",
		"{name: a, key: [ip, http_x_tenant]}, {name: b, key: ip}":     "with 51 of its own values in a minute",
		"{name: a, key: [ip, user]}":                                  "counts by user",
		"{name: a, key: [ip, agent], guard: off}, {name: b, key: ip}": "",
	} {
		for guard, values := range map[string]string{"most_new: 50/min": "51", "most_share: 2%": "many"} {
			text := "guard: {" + guard + "}\nrules: [" + strings.ReplaceAll(rules, "{name:", "{match: 'status != 401', limits: [9/s], name:") + "]\n"
			_, warnings, err := rule.Parse("rules.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Replace(want, "51", values, 1)
			if got := fmt.Sprint(warnings); strings.Contains(got, "has a guard") != (want != "") || !strings.Contains(got, want) {
				t.Errorf("%s\n%s", text, got)
			}
		}
	}
	for match, warns := range map[string]bool{`path startsWith "/api/"`: true, `path == "/login"`: false, `path in ["/a", "/b"] and status == 401`: false, `path matches "^/login(/|$)"`: false} {
		text := fmt.Sprintf("rules: [{name: a, match: '%s', key: [ip, path], limits: [9/s], guard: {most_new: 50/min}}]", match)
		_, warnings, err := rule.Parse("rules.yaml", []byte(text))
		if err != nil || strings.Contains(fmt.Sprint(warnings), "has a guard") != warns {
			t.Errorf("%s: %v, %v", match, warnings, err)
		}
	}
}

// A share is of all partitions' keys, and never fewer than LeastShared keys.
func TestShareOfKeysOfAGuard(t *testing.T) {
	for _, c := range []struct {
		keys       float64
		partitions int
		want       int64
	}{{0, 1, 20}, {1000, 1, 20}, {1001, 1, 21}, {10_000, 1, 200}, {10_000, 0, 200}, {10_000, 2, 243}, {5000, 2, 130}, {10, 16, 5}, {1e30, 1, 1<<31 - 1}} {
		if got := (rule.Guard{MostShare: 2}).ShareOf(c.keys, c.partitions); got != c.want {
			t.Errorf("of %v keys in each of %d partitions: %d, want %d", c.keys, c.partitions, got, c.want)
		}
	}
	for guard, want := range map[rule.Guard]string{{}: "", {MostNew: 5}: "5 new blocks/min", {MostShare: 0.5}: "0.5% of the keys of a minute", {MostNew: 5, MostShare: 2}: "5 new blocks/min, 2% of the keys of a minute"} {
		if got := guard.String(); got != want || guard.Off() != (want == "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
