package backtest

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"weir/internal/duration"
)

// A TestReport is the result of the tests of one file.
type TestReport struct {
	File  string       `json:"file"`
	Cases []CaseReport `json:"cases"`

	Inline []string `json:"inline,omitempty"` // rules that are decided inline, and left out here
}

// A CaseReport is the result of one test. Without failures it has passed.
type CaseReport struct {
	Name     string        `json:"name"`
	Line     int           `json:"line"`
	Failures []TestFailure `json:"failures"`
}

// A TestFailure is one expectation that was not met.
type TestFailure struct {
	Line     int    `json:"line"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// Failed is the number of failed tests.
func (t *TestReport) Failed() int {
	failed := 0
	for _, c := range t.Cases {
		if len(c.Failures) > 0 {
			failed++
		}
	}
	return failed
}

// WriteText writes which tests failed and why, and with verbose also those that passed.
func (t *TestReport) WriteText(w io.Writer, verbose bool) error {
	out := bufio.NewWriter(w)
	for _, name := range t.Inline {
		fmt.Fprintf(out, "%s: %s\n", t.File, leftOut(name))
	}
	for _, c := range t.Cases {
		if len(c.Failures) == 0 {
			if verbose {
				fmt.Fprintf(out, "ok      %s\n", c.Name)
			}
			continue
		}
		fmt.Fprintf(out, "FAILED  %s\n", c.Name)
		for _, f := range c.Failures {
			fmt.Fprintf(out, "    %s:%d\n      expected: %s\n      got:      %s\n", t.File, f.Line, f.Expected, f.Got)
		}
	}

	fmt.Fprintf(out, "%s: %d of %s passed\n", t.File, len(t.Cases)-t.Failed(), counted(int64(len(t.Cases)), "test"))
	return out.Flush()
}

// A testRun compares a test with the result of its requests.
type testRun struct {
	file   *testFile
	test   *testSpec
	start  time.Time
	report *Report
}

// A found is a key that was blocked, and by which rule.
type found struct {
	rule *RuleReport
	*Blocked
}

func (v *testRun) failures() (failures []TestFailure) {
	expected := map[*Blocked]bool{}
	for i := range v.test.Blocked {
		b := &v.test.Blocked[i]
		all := v.find(b.who)
		for _, f := range all {
			// Expected also when the details are wrong: otherwise the key would be reported twice.
			expected[f.Blocked] = true
		}
		if !v.anyHolds(b, all) {
			failures = append(failures, TestFailure{b.place.Line, v.wanted(b), v.got(b.who, all)})
		}
	}

	for _, w := range v.test.Never.whom {
		if all := v.find(w); len(all) > 0 {
			failures = append(failures, TestFailure{w.place.Line, w.Key + " is never blocked" + byRule(w), v.got(w, all)})
		}
	}

	if v.test.Never.others {
		failures = append(failures, v.others(expected)...)
	}
	return failures
}

// others fails for all blocked keys that are not expected.
func (v *testRun) others(expected map[*Blocked]bool) (failures []TestFailure) {
	for i := range v.report.Rules {
		r := &v.report.Rules[i]
		for j := range r.Blocked {
			if b := &r.Blocked[j]; !expected[b] && !b.guarded() {
				failures = append(failures, TestFailure{v.test.place.Line, "no one else is blocked", v.describe(found{r, b})})
			}
		}
	}
	return failures
}

// find finds the blocked keys that w means.
func (v *testRun) find(w who) (all []found) {
	for i := range v.report.Rules {
		r := &v.report.Rules[i]
		if w.Rule != "" && w.Rule != r.Rule {
			continue
		}
		key, err := v.file.set.Rules[i].Key.Canonical(w.Key)
		for j := range r.Blocked {
			if err == nil && r.Blocked[j].Key == key && !r.Blocked[j].guarded() {
				all = append(all, found{r, &r.Blocked[j]})
			}
		}
	}

	return all
}

func (v *testRun) anyHolds(b *blockedSpec, all []found) bool {
	for _, f := range all {
		at := !b.At.given || int64(f.First) == b.At.from(v.start).UnixMilli()
		limit := b.Limit.Hits == 0 || f.allowed == b.Limit.Hits && f.per == b.Limit.Per.Milliseconds()
		if at && limit && (b.Refused == nil || f.Refused == *b.Refused) {
			return true
		}
	}
	return false
}

func (v *testRun) wanted(b *blockedSpec) string {
	text := b.Key + " is blocked" + byRule(b.who)
	if b.Limit.Hits > 0 {
		text += " of " + b.Limit.Text
	}
	if b.At.given {
		text += " at " + v.moment(b.At.from(v.start).UnixMilli())
	}
	if b.Refused != nil {
		text += ", with " + counted(*b.Refused, "request") + " refused"
	}
	return text
}

func byRule(w who) string {
	if w.Rule == "" {
		return ""
	}
	return " by " + w.Rule
}

func (v *testRun) got(w who, all []found) string {
	if len(all) == 0 {
		return "it was not blocked" + v.counted(w)
	}
	describe := make([]string, len(all))
	for i, f := range all {
		describe[i] = v.describe(f)
	}
	return strings.Join(describe, "; ")
}

// counted describes how far a rule was from blocking a key.
func (v *testRun) counted(w who) string {
	var counts []string
	for i := range v.report.Rules {
		if r := &v.report.Rules[i]; !r.Inline && (w.Rule == "" || w.Rule == r.Rule) {
			text := fmt.Sprintf("%s counted %s of %s", r.Rule, counted(r.Requests, "request"), counted(r.Keys, "key"))
			if len(r.Uncounted) > 0 {
				text += ", and not " + uncountedText(r.Uncounted)
			}
			counts = append(counts, text)
		}
	}
	return "; " + strings.Join(counts, "; ")
}

func (v *testRun) describe(f found) string {
	return fmt.Sprintf("%s was blocked by %s of %s at %s, with %s of %d refused", f.Key, f.rule.Rule, f.Limit,
		v.moment(int64(f.First)), counted(f.Refused, "request"), f.Requests)
}

// moment is a time as the test writes its times: from its start, or for a log the time itself.
func (v *testRun) moment(at int64) string {
	if v.test.Log != "" || at < v.start.UnixMilli() {
		return Instant(at).String()
	}
	return duration.Format(time.Duration(at-v.start.UnixMilli()) * time.Millisecond)
}
