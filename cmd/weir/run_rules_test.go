package main

import (
	"strings"
	"testing"

	"weir/cmd/internal/config"
	"weir/pkg/rule"
)

// The summary of a run does not show an inline rule as one that blocks.
func TestSummaryOfRules(t *testing.T) {
	set, _, err := rule.Parse("rules.yaml", []byte(`
rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: quota, key: ip, limits: [10/min, 20/h], inline: true}
  - {name: tried, key: ip, limits: [10/min], inline: {also: log}, mode: shadow}
`))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	(&runSummary{config: &config.Config{RuleSet: set}}).rules(&b)
	const want = `rule       per-ip: 10/min by ip, enforce
rule       quota: 10/min 20/h by ip, inline, enforce
rule       tried: 10/min by ip, inline, shadow: shown, not refused
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
