package operate

import (
	"strings"
	"testing"

	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

// The texts of others stay in their row and cell of the list.
func TestHostileTextsStayInTheirRow(t *testing.T) {
	const hostile = "a\n\x1b[2Jb\tc"
	for name, e := range map[string]blocklist.Entry{
		"block":   {Rule: "manual", Key: hostile, Fields: map[string]string{"user": hostile}, Source: blocklist.Manual, By: hostile, Why: hostile, Order: blocklist.OrderBlock, Until: blocklist.Never},
		"verdict": {Rule: hostile, Key: "192.0.2.1", Count: 6, Limit: hostile},
	} {
		row := (&listWriter{}).row(&shown.Entry{Entry: e}).Cells
		if strings.ContainsAny(row, "\x1b\n") || strings.Count(row, "\t") != 3 || strings.Count(row, `a\n\x1b[2Jb\tc`) < 2 {
			t.Errorf("%s: %q", name, row)
		}
	}
}

// The remarks of a server that is not ours stay in their line.
func TestHostileRemarksStayInTheirLine(t *testing.T) {
	const hostile = "a\x1b[2Jb"
	answer := orderAnswer{Note: hostile, Affects: []string{hostile}}
	for name, text := range map[string]string{
		"note": answer.where("here"), "detail": ask.Detail([]byte(`{"detail": "a\u001b[2Jb"}`)),
	} {
		if strings.Contains(text, "\x1b") || !strings.Contains(text, `a\x1b[2Jb`) {
			t.Errorf("%s: %q", name, text)
		}
	}
}
