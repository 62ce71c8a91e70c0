package inspect

import (
	"strings"
	"testing"
	"time"

	"weir/cmd/weir/internal/shown"
	"weir/pkg/blocklist"
)

func TestHostileTextsAreShownInOneLine(t *testing.T) {
	const hostile = "a\n\x1b[2Jb\tc"
	e := shown.Entry{Entry: blocklist.Entry{Rule: hostile, Key: hostile, Fields: map[string]string{"user": hostile}, Source: blocklist.Manual, By: hostile, Why: hostile,
		Order: blocklist.OrderBlock, Until: blocklist.Never}}
	change := watchChange{Entry: e, what: blocklist.EventOrdered}
	top := &strings.Builder{}
	if err := showTop(top, "text", []*topKey{{Rule: hostile, Key: hostile}}); err != nil {
		t.Fatal(err)
	}
	counted := &strings.Builder{}
	(&countedKey{Rule: hostile, Key: hostile}).text(counted, nil, shown.Times{})
	for name, text := range map[string]string{
		"watch": change.text(time.UnixMilli(0), shown.Times{}), "top": top.String(), "explain": counted.String(),
	} {
		if strings.ContainsAny(text, "\x1b\t") || !strings.Contains(text, `a\n\x1b[2Jb\tc`) {
			t.Errorf("%s: %q", name, text)
		}
	}
	for _, form := range []func(*strings.Builder) error{
		func(b *strings.Builder) error {
			return (&watchLines{out: b, form: "plain"}).add(time.UnixMilli(0), []watchChange{change})
		},
		func(b *strings.Builder) error { return showTop(b, "plain", []*topKey{{Key: hostile}}) },
	} {
		b := &strings.Builder{}
		if err := form(b); err != nil || b.String() != "a\\n\\x1b[2Jb\\tc\n" {
			t.Errorf("%v: %q", err, b.String())
		}
	}
}
