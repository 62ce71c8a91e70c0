package rule

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

// The letters that are left out before the conversion are those that the conversion leaves out.
func TestIgnoredLetters(t *testing.T) {
	for r := rune(utf8.RuneSelf); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		if got, _ := lookup.ToASCII("a" + string(r) + "b"); (got == "ab") != unicode.In(r, ignored) {
			t.Errorf("%U becomes %q", r, got)
		}
	}
}
