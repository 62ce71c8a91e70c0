package backtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A backtest of a share has the blocks that a live system begins, each so much later as requests may be late, also of a client
// that sends nothing more; and requests that pass until then are not refused.
func TestBacktestOfShares(t *testing.T) {
	noon := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	add := func(second int, client string, status int) {
		at := noon.Add(time.Duration(second) * time.Second)
		lines = append(lines, line{at, fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" %d 5 \"-\" \"a\"\n", client, at.Format("02/Jan/2006:15:04:05 -0700"), status)})
	}
	for second := range 3600 {
		add(second, "192.0.2.1", 404)            // goes on
		add(second, "192.0.2.4", 400+second%2*4) // half of them
		if second < 20 {
			add(second, "192.0.2.2", 404) // stops
		}
		if second < 40 {
			add(second, "192.0.2.3", 404-second/20*204) // is good again, too late
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range lines { // some are late
		if j := i - r.IntN(40); j >= 0 && r.IntN(3) == 0 {
			lines[i], lines[j] = lines[j], lines[i]
		}
	}
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(l.text)
	}

	rules := parseRules(t, "rules: [{name: errors, key: ip, share: {of: status == 404, over: 50%, least: 20, within: 10m}, block: {for: 10m}}]")
	report := runConfig(t, Config{Rules: rules, Inputs: []Input{writeFile(t, "access.log", []byte(text.String()))}})
	got := map[string]Blocked{}
	for _, b := range report.Rules[0].Blocked {
		got[b.Key] = b
	}
	first := Instant(noon.Add(19*time.Second + 2*DefaultLate).UnixMilli())
	for key, want := range map[string]Blocked{"192.0.2.1": {Refused: 1160, Blocks: 2}, "192.0.2.2": {Blocks: 1}, "192.0.2.3": {Blocks: 1}} {
		if b := got[key]; b.First != first || b.Refused != want.Refused || b.Blocks != want.Blocks || b.Limit != "50% of at least 20 requests within 10 minutes" || b.Peak < 20 {
			t.Errorf("%s: %+v, want %+v from %v on", key, b, want, first)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d are blocked: %+v", len(got), got)
	}
}

// A request that is later than its rule allows does not count, as in a live system: the report shows how many there are, and
// what they would have changed.
func TestBacktestOfRequestsLaterThanTheirRuleAllows(t *testing.T) {
	noon := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	var lines strings.Builder
	add := func(second, status int) {
		at := noon.Add(time.Duration(second) * time.Second)
		fmt.Fprintf(&lines, "192.0.2.1 - - [%s] \"GET /%d HTTP/1.1\" %d 5 \"-\" \"a\"\n", at.Format("02/Jan/2006:15:04:05 -0700"), second, status)
	}
	for second := range 20 {
		add(second, 404)
	}
	add(200, 404)
	for second := range 30 { // so late that the share is decided
		add(second, 200)
	}

	for late, want := range map[string]struct{ blocked, late int }{"": {0, 0}, ", late: 10m": {0, 0}, ", late: 1m": {1, 30}} {
		rules := parseRules(t, "rules: [{name: errors, key: ip, share: {of: status == 404, over: 50%, least: 20, within: 10m"+late+"}},"+
			" {name: all, key: ip, limits: [100/hour]}]")
		report := runConfig(t, Config{Rules: rules, Inputs: []Input{writeFile(t, "access.log", []byte(lines.String()))}})
		errors, all := report.Rules[0], report.Rules[1]
		if len(errors.Blocked) != want.blocked || errors.Uncounted["late"] != int64(want.late) || errors.Requests != int64(51-want.late) || all.Requests != 51 {
			t.Errorf("%q: %+v, want %+v", late, errors, want)
		}
	}
}
