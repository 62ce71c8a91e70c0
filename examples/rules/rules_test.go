package rules_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"weir/examples/rules"
	"weir/pkg/backtest"
	"weir/pkg/rule"
)

// Each set is in the program, gives no warning, and passes its tests, which have each of its rules block a key.
func TestSets(t *testing.T) {
	found, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range found {
		if name, ok := strings.CutSuffix(entry.Name(), ".yaml"); ok && !strings.HasSuffix(name, "_test") {
			names = append(names, name)
		}
	}
	if got := rules.Names(); len(names) == 0 || !slices.Equal(got, names) {
		t.Fatalf("the program has %v, the folder %v", got, names)
	}

	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			set, warnings, err := rule.Parse(name+".yaml", rules.Text(name))
			if err != nil || len(warnings) > 0 {
				t.Fatal(err, warnings)
			}
			result, err := backtest.RunTests(t.Context(), name+"_test.yaml")
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range result.Cases {
				for _, failure := range one.Failures {
					t.Errorf("%s: %+v", one.Name, failure)
				}
			}
			text, err := os.ReadFile(name + "_test.yaml")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range set.Rules {
				if !strings.Contains(string(text), "- {rule: "+r.Name+", key:") {
					t.Errorf("no test has %s block a key", r.Name)
				}
			}
		})
	}
}

// All sets can be used together.
func TestSetsTogether(t *testing.T) {
	var patterns []string
	for _, name := range rules.Names() {
		patterns = append(patterns, name+".yaml")
	}
	if _, warnings, err := rule.Load(patterns...); err != nil || len(warnings) > 0 {
		t.Error(err, warnings)
	}
	if rules.Text("nonsense") != nil || rules.Text("../sample") != nil {
		t.Error("there is a set of another name")
	}
}
