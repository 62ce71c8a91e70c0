package exit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"weir/internal/yamlfile"
)

func TestExitCodes(t *testing.T) {
	fault := yamlfile.Fault{File: "rules.yaml", Line: 3, Column: 5, What: "wrong", Remedy: "right"}
	for _, test := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{errors.New("broken"), 1, "weir: broken\n"},
		{Wrongf("not so"), 2, "weir: not so\n"},
		{Unmetf("it does not hold"), 3, "weir: it does not hold\n"},
		{errors.Join(errors.New("broken"), Unmetf("it does not hold")), 1, "weir: broken\nweir: it does not hold\n"},
		{errors.Join(nil, Unmetf("one"), Unmetf("two")), 3, "weir: one\nweir: two\n"},
		{errors.Join(errors.Join(errors.New("away"), errors.New("away")), errors.New("broken"), errors.New("away")), 1, "weir: away\nweir: broken\n"},
		{errors.Join(errors.New("broken"), Wrongf("not so")), 2, "weir: broken\nweir: not so\n"},
		{Wrong(yamlfile.Faults{fault, fault}), 2, strings.Repeat("rules.yaml:3:5: wrong; right\n", 2)},
		{fmt.Errorf("one cause %w, one %w", errors.New("here"), errors.New("there")), 1, "weir: one cause here, one there\n"},
		{yamlfile.Faults{fault}, 2, "rules.yaml:3:5: wrong; right\n"},
		{fmt.Errorf("read: %w", context.Canceled), 1, "weir: stopped before the end\n"},
		{fmt.Errorf("sending: %w", syscall.EPIPE), 1, "weir: sending: broken pipe\n"},
	} {
		var stderr bytes.Buffer
		if code := Report(test.err, &stderr); code != test.code || stderr.String() != test.says {
			t.Errorf("%v: exit code %d and %q, want %d and %q", test.err, code, stderr.String(), test.code, test.says)
		}
	}
}
