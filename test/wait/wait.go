// Package wait waits in tests for what has no notification.
package wait

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// patience is enough for a machine that is busy with other tests.
const patience = 2 * time.Minute

// Until waits until a condition is true, and fails the test when it stays false for minutes. The words say what is
// waited for: "the list is complete".
func Until(t testing.TB, words string, is func() bool) {
	t.Helper()
	if !becomes(is) {
		t.Fatalf("not within %v: %s", patience, words)
	}
}

// Text waits until a text is in a buffer, and fails the test when it is not there for minutes.
func Text(t testing.TB, in fmt.Stringer, text string) {
	t.Helper()
	if !becomes(func() bool { return strings.Contains(in.String(), text) }) {
		t.Fatalf("not within %v: %q in %s", patience, text, in)
	}
}

func becomes(is func() bool) bool {
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
			return false
		}
	}
	return true
}
