package daemon

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// docs/configuration.md has every flag of the daemons, and no others; the row of a flag that only one part has names the
// part.
func TestFlagsAreDocumented(t *testing.T) {
	documented, there := map[string]string{}, map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| (.*) \\|$").FindAllStringSubmatch(page(t, "configuration.md"), -1) {
		documented[row[1]] = row[2]
	}
	parts := []Part{Collector, Aggregator, Enforcer}
	for _, part := range parts {
		var usage strings.Builder
		if _, err := parse(part, []string{part.Name, "--help"}, &usage); !errors.Is(err, pflag.ErrHelp) {
			t.Fatal(err)
		}
		for _, flag := range regexp.MustCompile(`(?m)^ +--([a-z-]+)`).FindAllStringSubmatch(usage.String(), -1) {
			there[flag[1]] = append(there[flag[1]], part.Name)
		}
		there["help"] = append(there["help"], part.Name)
	}
	if got, want := slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(there)); !slices.Equal(got, want) || len(want) < 4 {
		t.Errorf("documented: %v; there are: %v", got, want)
	}
	for flag, of := range there {
		if len(of) < len(parts) && !strings.Contains(documented[flag], "of `"+of[0]+"` only") {
			t.Errorf("docs/configuration.md does not say that only %v has --%s", of, flag)
		}
	}
}
