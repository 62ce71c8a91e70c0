package keytext_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"weir/internal/keytext"
)

func TestTextsAreWrittenOneWay(t *testing.T) {
	for _, test := range []struct {
		text, want string
		listed     bool
	}{
		{"alice", "alice", false},
		{"a b", "a b", false},
		{"a b", `a\x20b`, true},
		{`DOMAIN\alice`, `DOMAIN\\alice`, false},
		{"ä€", "ä€", false},
		{"\x00\x7f\xff", `\x00\x7f\xff`, false},
		{"\u2028", `\xe2\x80\xa8`, false},
		{"\ufffd", "\ufffd", false},
		{"x…#", `x\xe2\x80\xa6#`, false},
	} {
		if got := string(keytext.Append([]byte("before "), test.text, test.listed)); got != "before "+test.want {
			t.Errorf("%q, listed %v: %q, want %q", test.text, test.listed, got, test.want)
		}
	}
}

func FuzzKeysAreBoundedAndPrintable(f *testing.F) {
	for _, text := range []string{"alice", strings.Repeat("x", 257), strings.Repeat("ä", 200), strings.Repeat(`\`, 150), "xx" + strings.Repeat("\x01", 100)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key := string(keytext.Cut(keytext.Append(nil, text, true), 0))
		if len(key) > keytext.MaxBytes || !utf8.ValidString(key) || strings.ContainsRune(key, ' ') || strings.ContainsFunc(key, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("%q has the key %q", text, key)
		}
		if keytext.IsPlain(text) && string(keytext.Cut(keytext.Append(nil, text, false), 0)) != text {
			t.Errorf("%q is plain, and not its own key", text)
		}
	})
}
