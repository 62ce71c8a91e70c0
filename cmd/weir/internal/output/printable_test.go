package output

import (
	"strings"
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

// Names of files and errors of servers come from outside: they must not control the terminal.
func TestTablesArePrintable(t *testing.T) {
	var b strings.Builder
	Table(&b, []string{"a\t/logs/b\x1b[31mz.log\tx", "name\ttwo\nlines\t\u202e"})
	if got, want := b.String(), "a     /logs/b\\x1b[31mz.log  x\nname  two\\nlines            \\u202e\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
