package kafkatest

import (
	"errors"
	"strings"
	"testing"
)

// Without Java the error is one line, and no other failure.
func TestCannotBeHad(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Start(t.Context(), Options{})
	if !errors.Is(err, ErrCannotBeHad) || err.Error() != "a real Kafka is not available here: there is no java on the PATH (17 or newer is needed)" {
		t.Fatal(err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Error("that is more than a line")
	}
	skipped := t.Run("skips", func(t *testing.T) {
		t.Setenv("WEIR_REQUIRE_REAL", "")
		mustBeHad(t, err)
		t.Error("the test goes on")
	})
	if !skipped {
		t.Error("it is a failure, though it need not be had")
	}
}

// With WEIR_REQUIRE_REAL it is a failure.
func TestMustBeHad(t *testing.T) {
	t.Setenv("WEIR_REQUIRE_REAL", "1")
	recorder := &recorder{TB: t}
	func() {
		defer func() { recover() }()
		mustBeHad(recorder, ErrCannotBeHad)
	}()
	if !recorder.failed {
		t.Error("the test is not failed")
	}
}

// recorder is a test that only records its failure.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Fatal(...any) {
	r.failed = true
	panic("the test ends")
}
