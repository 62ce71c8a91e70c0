package inspect

import (
	"fmt"
	"testing"

	"weir/cmd/internal/config"
	"weir/pkg/rule"
)

// Aggregators are asked about rules that count the log, and enforcers about inline rules.
func TestExplainAsksWhereARuleCounts(t *testing.T) {
	set, _, err := rule.Parse("rules.yaml", []byte(`
rules:
  - {name: per-ip, key: ip, limits: [10/min]}
  - {name: quota, key: ip, limits: [10/min], inline: true}
  - {name: both, key: ip, limits: [10/min], inline: {also: log}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for named, want := range map[string]string{"": "[{per-ip 192.0.2.1} {both 192.0.2.1}]", "quota": "[]", "both": "[{both 192.0.2.1}]"} {
		e := &explainCommand{rule: named}
		if got := fmt.Sprint(e.rules(&config.Config{RuleSet: set}, "192.0.2.1", (*rule.Rule).CountsLog)); got != want {
			t.Errorf("--rule %q: %s, want %s", named, got, want)
		}
	}
	for named, want := range map[string]string{"": "[{quota 192.0.2.1} {both 192.0.2.1}]", "quota": "[{quota 192.0.2.1}]", "per-ip": "[]"} {
		e := &explainCommand{rule: named}
		if got := fmt.Sprint(e.rules(&config.Config{RuleSet: set}, "192.0.2.1", func(r *rule.Rule) bool { return r.Inline })); got != want {
			t.Errorf("--rule %q, inline: %s, want %s", named, got, want)
		}
	}
}
