// Package wait waits in tests for what has no notification.
package wait

import (
	"testing"
	"time"
)

// patience is enough for a machine that is busy with other tests.
const patience = 2 * time.Minute

// Until waits until a condition is true, and fails the test when it stays false for minutes. The words say what is
// waited for: "the list is complete".
func Until(t testing.TB, words string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %s", patience, words)
		}
	}
}
