package inspect

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

// A block lasts longer than the window of its limit. Then the row of the limit does not only have 0 hits: it says that the
// window is empty now, and when the key broke the limit, by the aggregator's block or else by the entry on the list.
func TestExplainOfABlockWhoseWindowIsEmpty(t *testing.T) {
	const counts = `{"rule":"per-ip","key":"203.0.113.7","where":"hot","at":"2026-03-03T08:05:00Z",
		"limits":[{"limit":"10/min","count":0,"clears":null},{"limit":"100/hour","count":0,"clears":null}]`
	const block = `,"block":{"from":"2026-03-03T08:00:07Z","until":"2026-03-03T08:10:07Z","limit":"10/min","count":11,"level":1,"blocked":BLOCKED,"ended":ENDED}}`
	entry := &shown.Entry{Entry: blocklist.Entry{Rule: "per-ip", Key: "203.0.113.7", Limit: "10/min",
		From: time.Date(2026, 3, 3, 8, 0, 7, 0, time.UTC).UnixMilli()}}
	other := *entry
	other.Rule = "sign-in"
	const empty = "    10/min    0 hits  its window is empty now; the key broke this limit at 2026-03-03T08:00:07Z\n"
	for name, test := range map[string]struct {
		block   string
		entries []*shown.Entry
		empty   bool
	}{
		"blocked":                {strings.NewReplacer("BLOCKED", "true", "ENDED", "null").Replace(block), nil, true},
		"over":                   {strings.NewReplacer("BLOCKED", "false", "ENDED", "null").Replace(block), nil, false},
		"unblocked":              {strings.NewReplacer("BLOCKED", "false", "ENDED", `"2026-03-03T08:01:00Z"`).Replace(block), nil, false},
		"only on the list":       {"}", []*shown.Entry{entry}, true},
		"another rule's entry":   {"}", []*shown.Entry{&other}, false},
		"neither block nor list": {"}", nil, false},
	} {
		var k countedKey
		if err := json.Unmarshal([]byte(counts+test.block), &k); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		k.text(&b, test.entries, shown.Times{})
		if got := strings.Contains(b.String(), empty); got != test.empty || !strings.Contains(b.String(), "    100/hour  0 hits  clear\n") {
			t.Errorf("%s: the empty window is named: %t\n%s", name, got, b.String())
		}
	}
}

// A count of very many different values is an estimate, and so is its text.
func TestExplainOfAnEstimate(t *testing.T) {
	for estimate, want := range map[string]string{"true": "about 5,230 values", "false": " 5,230 values"} {
		var k countedKey
		text := `{"rule":"crawlers","key":"203.0.113.7","where":"hot","limits":[{"limit":"20000 different paths within an hour","count":5230,"estimate":` + estimate + `}]}`
		if err := json.Unmarshal([]byte(text), &k); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		k.text(&b, nil, shown.Times{})
		if got := b.String(); !strings.Contains(got, want) || strings.Contains(got, "about") != (estimate == "true") {
			t.Errorf("%s: %s", estimate, got)
		}
	}
}
