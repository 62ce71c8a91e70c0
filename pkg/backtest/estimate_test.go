package backtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A backtest of different values that are estimated has the blocks that a live system begins, each at the end of its part of
// the window and so much later as requests may be late, also of a client that sends nothing more; and one with fewer values is
// not blocked.
func TestBacktestOfEstimates(t *testing.T) {
	noon := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	var lines []string
	add := func(at time.Time, client string, path int) {
		lines = append(lines, fmt.Sprintf("%s - - [%s] \"GET /p%d HTTP/1.1\" 404 5 \"-\" \"a\"\n", client, at.Format("02/Jan/2006:15:04:05 -0700"), path))
	}
	for n := range 5600 {
		at := noon.Add(time.Duration(n) * time.Second / 10)
		add(at, "192.0.2.1", n)
		add(at, "192.0.2.2", n%4900)
		add(at, "192.0.2.2", n%4900)
	}
	for n := range 40 { // one goes on
		add(noon.Add(time.Duration(n)*time.Minute), "192.0.2.3", n)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range lines { // some are late
		if j := i - r.IntN(40); j >= 0 && i < len(lines)-40 && r.IntN(3) == 0 {
			lines[i], lines[j] = lines[j], lines[i]
		}
	}

	for late, after := range map[string]time.Duration{"": 2 * DefaultLate, ", late: 1m": time.Minute} {
		rules := parseRules(t, "rules: [{name: scans, key: ip, distinct: path, limits: [5000/hour]"+late+", block: {for: 10m}}]")
		report := runConfig(t, Config{Rules: rules, Inputs: []Input{writeFile(t, "access.log", []byte(strings.Join(lines, "")))}})
		blocked := report.Rules[0].Blocked
		first := Instant(noon.Add(3*225*time.Second + after).UnixMilli())
		if len(blocked) != 1 || blocked[0].Key != "192.0.2.1" || blocked[0].First != first || blocked[0].Blocks != 1 || blocked[0].Limit != "5000 different paths within an hour" ||
			blocked[0].Peak < 5178 || blocked[0].Peak > 5600 {
			t.Errorf("%s: %+v, want one from %v on", late, blocked, first)
		}
	}
}
