// Package wait waits in tests for what has no notification.
package wait

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is enough for a machine that is busy with other tests.
const patience = 2 * time.Minute

// Together lets as many parallel tests run at the same time, whatever the number of processors: for packages whose tests
// wait more than they compute. TestMain calls it before the tests run. The flag -parallel of go test has precedence.
func Together(tests int) {
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
}

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
