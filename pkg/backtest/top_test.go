package backtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/pkg/rule"
)

func topOf(t *testing.T, by string, number int, log string) *TopReport {
	t.Helper()
	set, err := rule.FromLimits([]string{"1/s"}, by)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Top(context.Background(), Config{Rules: set, Format: "json", Inputs: []Input{fromText("log", log)}}, number)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Values come from clients: whatever they send is shown in one line, printable and of a bounded length.
func TestTopOfHostileValues(t *testing.T) {
	line := func(agent string) string {
		return fmt.Sprintf(`{"time":"2026-03-03T08:00:00Z","ip":"203.0.113.7","path":"/","agent":"%s"}`+"\n", agent)
	}
	huge := strings.Repeat("é", 5000)
	log := strings.Repeat(line(`\u001b]0;owned\u0007\u001b[2J\u202e`), 5) + strings.Repeat(line(`a\u0000b`), 4) + strings.Repeat(line("\xff\xfe"), 3) +
		strings.Repeat(line(huge+"1"), 2) + line(huge+"2") + `{"time":"2026-03-03T08:00:00Z","ip":"203.0.113.7","path":"/"}` + "\n"
	report := topOf(t, "agent", 10, log)
	if report.Requests != 16 || report.Counted != 15 || report.Without != 1 || len(report.Values) != 5 {
		t.Fatalf("%+v", report)
	}
	for i, want := range []string{`\x1b]0;owned\x07\x1b[2J\xe2\x80\xae`, `a\x00b`, `\xff\xfe`, "éé", "éé"} {
		v := report.Values[i]
		if !strings.HasPrefix(v.Value, want) || v.Requests != int64(5-i) || len(v.Value) > rule.MaxKeyBytes {
			t.Errorf("%d: %+v, want %q", i, v, want)
		}
	}
	if report.Values[3].Value == report.Values[4].Value {
		t.Error("two long values are one")
	}
	var text strings.Builder
	if err := report.WriteText(&text, TextOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x1b\x00\a\u202e") || !utf8.ValidString(text.String()) || strings.Contains(text.String(), "too high") || !strings.Contains(text.String(), "1 request without agent") {
		t.Errorf("%q", &text)
	}
}

// A flood of different values changes no promise: the numbers say by how much they may be too high.
func TestTopOfMoreValuesThanCounters(t *testing.T) {
	var log strings.Builder
	const flood = 3 * topCounters
	for i := range flood {
		fmt.Fprintf(&log, `{"time":"2026-03-03T08:00:00Z","ip":"203.0.113.7","path":"/%d"}`+"\n", i)
		if i%100 == 0 {
			log.WriteString(`{"time":"2026-03-03T08:00:00Z","ip":"203.0.113.7","path":"/heavy"}` + "\n")
		}
	}
	report := topOf(t, "path", 3, log.String())
	if v := report.Values[0]; v.Value != "/heavy" || v.Requests-v.TooHigh > flood/100 || v.Requests < flood/100 || report.TooHigh > report.Counted/topCounters {
		t.Errorf("%+v of %+v", v, report)
	}
	if len(report.Values) != 3 || report.TooHigh == 0 {
		t.Errorf("%+v", report)
	}
	var text strings.Builder
	if err := report.WriteText(&text, TextOptions{}); err != nil || !strings.Contains(text.String(), "at most too high by") {
		t.Errorf("%v\n%s", err, &text)
	}
}
