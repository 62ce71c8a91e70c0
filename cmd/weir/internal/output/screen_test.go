package output

import (
	"strings"
	"testing"
	"unicode/utf8"
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

// Lines of a page fit the screen, and nothing of them is lost.
func TestWrapped(t *testing.T) {
	const line = "On the list: 203.0.113.7 by per-ip, until 3 Mar 2036 09:10 (3387d8h left) (11 hits broke 10/min)."
	for _, columns := range []int{20, 40, 80, 200} {
		lines := Wrapped(line, columns)
		for _, one := range lines {
			if utf8.RuneCountInString(one) > columns {
				t.Errorf("%d: %q", columns, one)
			}
		}
		if got := strings.Join(strings.Fields(strings.Join(lines, " ")), ""); got != strings.ReplaceAll(line, " ", "") {
			t.Errorf("%d: %q", columns, lines)
		}
	}
	if lines := Wrapped(strings.Repeat("x", 50), 20); len(lines) != 4 {
		t.Errorf("%q", lines)
	}
	if got := (Screen{Columns: 20}).Wrap("short\nfour words, not short\n"); got != "short\nfour words, not\n      short\n" {
		t.Errorf("%q", got)
	}
	if got := (Screen{}).Wrap(line + "\n"); got != line+"\n" {
		t.Errorf("a pipe: %q", got)
	}
}
