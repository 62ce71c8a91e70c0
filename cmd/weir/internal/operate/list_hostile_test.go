package operate

import (
	"strings"
	"testing"

	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

// The texts of others stay in their row and cell of the list.
func TestHostileTextsStayInTheirRow(t *testing.T) {
	const hostile = "a\n\x1b[2Jb\tc"
	e := shown.Entry{Entry: blocklist.Entry{Rule: "per-user", Key: hostile, Fields: map[string]string{"user": hostile}, Source: blocklist.Manual, By: hostile, Why: hostile,
		Order: blocklist.OrderBlock, Until: blocklist.Never}}
	row := listRow(&e)
	if strings.ContainsAny(row, "\x1b\n") || strings.Count(row, "\t") != 3 || !strings.Contains(row, `a\n\x1b[2Jb\tc`) {
		t.Errorf("%q", row)
	}
}
