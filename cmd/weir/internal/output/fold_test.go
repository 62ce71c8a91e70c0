package output

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Folded lines fit the screen, and nothing of them is lost.
func TestFold(t *testing.T) {
	const line = "On the list: 203.0.113.7 by per-ip, until 3 Mar 2036 09:10 (3387d8h left) (11 hits broke 10/min)."
	for _, columns := range []int{20, 40, 80, 200} {
		lines := Fold(line, columns)
		for _, one := range lines {
			if utf8.RuneCountInString(one) > columns {
				t.Errorf("%d: %q", columns, one)
			}
		}
		if got := strings.Join(strings.Fields(strings.Join(lines, " ")), ""); got != strings.ReplaceAll(line, " ", "") {
			t.Errorf("%d: %q", columns, lines)
		}
	}
	if lines := Fold(strings.Repeat("x", 50), 20); len(lines) != 4 {
		t.Errorf("%q", lines)
	}
}

// A text keeps its lines, and those that are too long are folded.
func TestFoldedTexts(t *testing.T) {
	const text = "one\n\n    03:14:21  blocked  per-ip  203.0.113.7  until 03:14:51, 31 hits\n"
	if got := folded(text, 40); got != "one\n\n    03:14:21  blocked  per-ip\n      203.0.113.7  until 03:14:51, 31\n      hits\n" {
		t.Errorf("%q", got)
	}
	if got := folded(text, 80); got != text {
		t.Errorf("%q", got)
	}
}
