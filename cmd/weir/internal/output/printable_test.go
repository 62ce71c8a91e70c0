package output

import (
	"testing"
)

// A client's name cannot fake a line of our output, or control the terminal.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"alice /login": "alice /login", "Zoë 日本": "Zoë 日本", "": "", "a\nb\tc": `a\nb\tc`, "\x1b[31mred\x00": `\x1b[31mred\x00`,
		"a\u202eb": `a\u202eb`, "a\xffb": "a\ufffdb", "\u009b2J": `\u009b2J`, `back\slash`: `back\slash`,
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
