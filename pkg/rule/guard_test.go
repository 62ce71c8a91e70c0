package rule_test

import (
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
