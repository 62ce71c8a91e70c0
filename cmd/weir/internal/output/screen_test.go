package output

import (
	"strings"
	"testing"
)

// On a terminal rows have its width, and colours do not move columns. A pipe has complete lines without colours.
func TestTablesFitTheScreen(t *testing.T) {
	rows := []Row{{Cells: "RULE\tWHY"}, {Cells: "per-ip\t11 hits", Color: Red}, {Cells: "Zoë\tat most"}}
	for want, screen := range map[string]Screen{
		"RULE    WHY\nper-ip  11 hits\nZoë     at most\n":                {},
		"RULE    WHY\nper-ip  11…\nZoë     at…\n":                        {Columns: 11},
		"RULE    WHY\n\x1b[31mper-ip  11 hits\x1b[0m\nZoë     at most\n": {Columns: 80, Colors: true},
		"RULE    WHY\n\x1b[31mper-ip  11 h…\x1b[0m\nZoë     at m…\n":     {Columns: 13, Colors: true},
	} {
		var b strings.Builder
		if screen.Table(&b, rows); b.String() != want {
			t.Errorf("%+v: %q, want %q", screen, b.String(), want)
		}
	}
}
