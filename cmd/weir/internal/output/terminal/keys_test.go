package terminal

import (
	"slices"
	"testing"
	"unicode/utf8"
)

// Keys are what was pressed, whatever comes before and after; unknown sequences are no keys, and a character that is not
// complete waits.
func TestKeys(t *testing.T) {
	for sent, want := range map[string][]Key{
		"q": {"q"}, "\x1b": {Escape}, "\x1b[A\x1bOBj": {Up, Down, "j"}, "\x1b[5~\x1b[6~": {PageUp, PageDown}, "\x03": {Interrupt},
		"\x7f\r": {Backspace, Enter}, "Zö日": {"Z", "ö", "日"}, "\x1b[200~x": {"", "x"}, "\x1b[": {""}, "\x1bq": {Escape, "q"}, "\xff\x00a": {"�", "a"},
	} {
		keys, rest := keysIn([]byte(sent))
		if !slices.Equal(keys, want) || len(rest) > 0 {
			t.Errorf("%q: %q, rest %q", sent, keys, rest)
		}
	}
	if keys, rest := keysIn([]byte("a\xe6\x97")); len(keys) != 1 || string(rest) != "\xe6\x97" {
		t.Errorf("%q, rest %q", keys, rest)
	}
}

// Reading any input ends, and leaves less than a character.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x1b[1;5A日\x1b"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if _, rest := keysIn(sent); len(rest) >= utf8.UTFMax {
			t.Errorf("rest %q", rest)
		}
	})
}
