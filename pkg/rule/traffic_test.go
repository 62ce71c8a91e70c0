package rule_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/pkg/rule"
)

// A group rule that is guarded by traffic needs a rule that counts all requests by address.
func TestGuardsByTrafficNeedARuleThatCountsAll(t *testing.T) {
	const group = "{name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min], guard: {most_share: 1%}}"
	for words, want := range map[string]int{
		"key: ip":                              0,
		"key: ip, cost: 1":                     0,
		"key: ip/32+128":                       0,
		"key: ip/24":                           -1,
		"key: user":                            -1,
		"key: [ip, path]":                      -1,
		"key: ip, cost: bytes":                 -1,
		"key: ip, cost: 2":                     -1,
		"key: ip, count: served":               -1,
		"key: ip, distinct: path":              -1,
		"key: ip, inline: true":                -1,
		"key: ip, inline: {also: log}":         0,
		"key: ip, match: 'path == \"/login\"'": -1,
	} {
		set, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: a, limits: [9/s], "+words+"}, "+group+"]"))
		if want < 0 {
			if err == nil || !strings.Contains(err.Error(), "needs the share of all requests") {
				t.Errorf("%s: %v", words, err)
			}
			continue
		}
		if err != nil || set.Traffic() != want || set.Counted().Traffic() != want {
			t.Errorf("%s: %v", words, err)
		}
	}
	if set, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: a, key: ip, limits: [9/s]}]")); err != nil || set.Traffic() != -1 {
		t.Errorf("%v: a rule without such a guard counts traffic", err)
	}
}

// The rules with such a guard have a bound, for each takes memory and time.
func TestGuardsByTrafficHaveABound(t *testing.T) {
	file := "rules:\n- {name: a, key: ip, limits: [9/s]}\n"
	for n := range 17 {
		file += fmt.Sprintf("- {name: g%d, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min], guard: {most_share: 1%%}}\n", n)
		_, _, err := rule.Parse("rules.yaml", []byte(file))
		switch want := "rules.yaml:19"; {
		case n < 16 && err != nil:
			t.Fatal(err)
		case n == 16 && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the guard of g16 is one too many: at most 16 rules")):
			t.Errorf("17 rules: %v", err)
		}
	}
}

// A key of the rule that counts all requests lies in one network of each rule.
func TestNetworksOfAKey(t *testing.T) {
	set, _, err := rule.Parse("rules.yaml", []byte(`rules:
  - {name: a, key: ip, limits: [9/s]}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min], guard: {most_share: 1%}}
  - {name: other, on: blocked, key: ip/20+48, distinct: ip, limits: [5/10min]}
  - {name: wide, on: blocked, key: ip/16+40, distinct: ip, limits: [5/10min], guard: {most_share: 1%}}
  - {name: systems, on: blocked, key: asn, distinct: ip, limits: [5/10min], guard: {most_share: 1%}}`))
	if err != nil {
		t.Fatal(err)
	}
	judge := set.NewJudge()
	for key, want := range map[string]string{
		"203.0.113.7": "203.0.113.0/24 203.0.0.0/16 -", "2001:db8:1:2::/64": "2001:db8:1::/48 2001:db8::/40 -", "none": "- - -",
	} {
		var got []string
		for i, h := range judge.Networks(key, 1) {
			if h.Rule != []int{1, 3, 4}[i] {
				t.Errorf("rule %d", h.Rule)
			}
			if got = append(got, string(h.Key)); h.Key == nil {
				got[i] = "-"
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", key, got, want)
		}
	}
}
