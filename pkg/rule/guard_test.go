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
guard: {most_new: 500/min}
rules:
  - {name: usual, key: ip, limits: [1/s]}
  - {name: own, key: ip, limits: [1/s], guard: {most_new: "50 / 1min"}}
  - {name: none, key: ip, limits: [1/s], guard: off}
  - {name: quota, key: ip, limits: [1/s], inline: true}
  - {name: refused, key: ip, limits: [1/s], inline: true, block: {after: 3, within: 1m}}
`)
	for i, want := range []int64{500, 50, 0, 0, 500} {
		if got := set.Rules[i].Guard.MostNew; got != want {
			t.Errorf("%s: %d, want %d", set.Rules[i].Name, got, want)
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
		"{name: a, key: ip}": "",
		"{name: a, key: ip, block: {for: 1h, then: [1h]}}":            "",
		"{name: a, key: ip, block: {for: 10m, then: [1h, 24h]}}":      "blocks of up to 1d",
		"{name: a, key: ip, block: {for: forever}}":                   "blocks of up to forever",
		"{name: a, key: [ip, path]}":                                  "",
		"{name: a, key: [ip, agent]}, {name: b, key: ip}":             "the rule a has a guard and counts by agent",
		"{name: a, key: [ip, http_x_tenant]}, {name: b, key: ip}":     "with 51 of its own values in a minute",
		"{name: a, key: [ip, user]}":                                  "counts by user",
		"{name: a, key: [ip, agent], guard: off}, {name: b, key: ip}": "",
	} {
		text := "guard: {most_new: 50/min}\nrules: [" + strings.ReplaceAll(rules, "{name:", "{match: 'status != 401', limits: [9/s], name:") + "]\n"
		_, warnings, err := rule.Parse("rules.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(warnings); strings.Contains(got, "has a guard") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s\n%s", text, got)
		}
	}
}
