package telemetry

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// Logs and the status show the words of a server about our log-in without the password.
func TestNoLogHasASecret(t *testing.T) {
	const old, current, odd = "the-one-before", "the-one-now", `a"b\c&d=e f`
	for _, text := range []string{"an-older-one", old, current, current} {
		Secret("password", text)
	}
	Secret("token", odd)
	Secret("short", "is")
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		logger, err := Log(&b, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		faults := NewFaults(logger)
		faults.Note("asking", errors.New("unknown command AUTH with "+current))
		logger.Warn("this is "+old, "error", errors.New(odd), "other", current)
		if text := b.String() + faults.Lasts("asking"); strings.Contains(text, "the-one") || strings.Contains(text, `b\`) || strings.Count(text, "***") != 5 {
			t.Errorf("%s: %s", format, text)
		}
	}
	for _, text := range []string{odd, `"a\"b\\c&d=e f"`, "x?p=a%22b%5Cc%26d%3De+f"} {
		if got := Hide(text); !strings.Contains(got, "***") {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := Hide("this is an-older-one"); got != "this is an-older-one" {
		t.Error(got)
	}
}
