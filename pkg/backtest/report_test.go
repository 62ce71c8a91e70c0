package backtest

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/window"
)

// burst is so many requests of a client, a second apart.
func burst(client, path string, from time.Time, requests int) string {
	var b strings.Builder
	for i := range requests {
		b.WriteString(strings.Replace(combined(client, from.Add(time.Duration(i)*time.Second)), "GET / ", "GET "+path+" ", 1))
	}
	return b.String()
}

const severalRules = `
rules:
  - {name: per-ip, key: ip, limits: [5/min], block: {for: 1m}}
  - {name: login, key: ip, limits: [3/min], match: path == "/login", block: {for: 10m}}
  - {name: look, key: [ip, path], limits: [1/min], mode: shadow}
allow:
  - {ip: 192.0.2.99}
`

// A request that several rules refuse is refused once, and shadow rules refuse none.
func TestRequestsAreRefusedOnce(t *testing.T) {
	text := burst("192.0.2.1", "/login", noon, 10) + burst("192.0.2.2", "/", noon.Add(time.Minute), 4) + burst("192.0.2.99", "/", noon.Add(2*time.Minute), 50)
	r := runConfig(t, Config{Rules: parseRules(t, severalRules), Inputs: []Input{fromText("log", text)}})
	var got []string
	for _, rule := range r.Rules {
		got = append(got, fmt.Sprintf("%s %d/%d by %d %v", rule.Rule, rule.Refused, rule.Requests, len(rule.Blocked), rule.Uncounted))
	}
	// The first rule refuses requests 6 to 10, the second 4 to 10; the third would refuse 9 and 3.
	if wanted := "per-ip 5/14 by 1 map[allowed:50]|login 7/10 by 1 map[allowed:50 match:4]|look 12/14 by 2 map[allowed:50]"; strings.Join(got, "|") != wanted || r.Refused != 7 {
		t.Errorf("%d refused: %s", r.Refused, strings.Join(got, "|"))
	}
	var refused int64
	for _, b := range r.plot.bars {
		refused += b.refused
	}
	if refused != 7 {
		t.Errorf("%d refused over time", refused)
	}
}

// Requests are counted in requests, the peak in cost.
func TestCostsCountInThePeak(t *testing.T) {
	rules := parseRules(t, "rules: [{name: a, key: ip, limits: [10/min], cost: 3}, {name: huge, key: ip, limits: [1/min], cost: 1e9}]")
	r := runConfig(t, Config{Rules: rules, Inputs: []Input{fromText("log", burst("192.0.2.1", "/", noon, 6))}})
	b := r.Rules[0].Blocked[0]
	if b.First != Instant(noon.Add(3*time.Second).UnixMilli()) || b.Peak != 18 || b.Requests != 6 || b.Refused != 3 {
		t.Errorf("%+v", b)
	}
	if b := r.Rules[1].Blocked[0]; b.First != Instant(noon.UnixMilli()) || b.Peak < 6_000_000_000 || b.Refused != 6 {
		t.Errorf("%+v", b)
	}
}

func TestAlgorithmsStandSideBySide(t *testing.T) {
	text := burst("192.0.2.1", "/", noon.Add(57*time.Second), 7) + burst("192.0.2.2", "/", noon.Add(2*time.Minute), 5)
	r := runConfig(t, Config{Rules: parseRules(t, severalRules), Algorithms: window.Algorithms(), Inputs: []Input{fromText("log", text)}})
	var got []string
	for _, a := range r.Algorithms {
		got = append(got, fmt.Sprintf("%s %d %d", a.Algorithm, len(a.Rules[0].Blocked), a.Rules[0].Refused))
		if a.StateBytes < 1 || a.HitNanos <= 0 || len(a.Rules) != 3 || a.Rules[0].Algorithm != a.Algorithm {
			t.Errorf("%+v", a)
		}
	}
	// Seven hits around the turn of a minute: three before it, four after it, and never one each 12 seconds.
	if wanted := "sliding 1 2|fixed 0 0|counter 1 2|token 1 2|uniform 2 10|leaky 1 2"; strings.Join(got, "|") != wanted {
		t.Error(strings.Join(got, "|"))
	}
	if alike := fmt.Sprint(r.Algorithms[0].Refused, r.Algorithms[0].Rules[0].Blocked[0].First); alike != fmt.Sprint(r.Refused, r.Rules[0].Blocked[0].First) {
		t.Errorf("sliding %s is not what the report says", alike)
	}
	rows := compareAlgorithms(r.Algorithms)
	if len(rows) != 4 || rows[0].blocked[1] != nil && rows[0].rule == "per-ip" || len(rows[0].blocked) != 6 {
		t.Errorf("%d rows, %+v", len(rows), rows)
	}
}

func TestAgainstOtherRules(t *testing.T) {
	before := parseRules(t, `
rules:
  - {name: per-ip, key: ip, limits: [7/min], block: {for: 1m}}
  - {name: other-name, key: [ip, path], limits: [1/min]}
  - {name: gone, key: user, limits: [1/hour]}
`)
	text := burst("192.0.2.1", "/", noon, 10) + burst("192.0.2.2", "/", noon.Add(time.Minute), 6) + burst("192.0.2.3", "/", noon.Add(2*time.Minute), 2)
	r := runConfig(t, Config{Rules: parseRules(t, severalRules), Against: before, Inputs: []Input{fromText("log", text)}})
	var got []string
	for _, c := range r.Against.Changes {
		got = append(got, fmt.Sprintf("%s: %d %d %d %d", c.name(), len(c.OnlyBefore), len(c.OnlyAfter), len(c.Changed), c.Same))
	}
	wanted := "per-ip: 0 1 1 0|login (new): 0 0 0 0|other-name → look: 0 0 0 3|gone (gone): 0 0 0 0"
	if strings.Join(got, "|") != wanted || r.Against.Refused != 9+5+1 {
		t.Errorf("%d refused before\n got %s\nwant %s", r.Against.Refused, strings.Join(got, "|"), wanted)
	}
	if k := r.Against.Changes[0].Changed[0]; k.Key != "192.0.2.1" || k.Before.Refused != 3 || k.After.Refused != 5 || k.turned() != 2 {
		t.Errorf("%+v", k)
	}
}

func TestVerdictsAreInTheReport(t *testing.T) {
	list, _ := ReadKeyList(strings.NewReader("192.0.2.0/24\n"))
	condition, _ := ParseCondition("refused > 10%")
	c := Config{Rules: parseRules(t, severalRules), Inputs: []Input{fromText("log", burst("192.0.2.1", "/x", noon, 10))}, FailIf: condition, Never: list}
	r := runConfig(t, c)
	if !r.Failed() || !r.FailIf.Holds || len(r.Never.Violations) != 2 || r.Never.Violations[1].Key != "192.0.2.1 /x" || r.Never.Violations[1].Mode != "shadow" {
		t.Errorf("%+v, %+v", r.FailIf, r.Never)
	}
	c.FailIf, c.Never, c.Inputs = Condition{}, nil, []Input{fromText("log", burst("192.0.2.1", "/x", noon, 10))}
	if r := runConfig(t, c); r.Failed() || r.FailIf != nil || r.Never != nil {
		t.Errorf("%+v, %+v", r.FailIf, r.Never)
	}
}

// everything is a report with all possible parts.
func everything(t *testing.T) *Report {
	list, _ := ReadKeyList(strings.NewReader("192.0.2.1\n"))
	condition, _ := ParseCondition("refused > 90%")
	text := burst("192.0.2.1", "/<script>alert(1)</script>", noon, 70) + burst("192.0.2.2", "/", noon.Add(time.Hour), 40) + "<b>nonsense</b>\n"
	for i := range 30 {
		text += burst(fmt.Sprintf("198.51.100.%d", i), "/", noon.Add(time.Duration(i)*time.Minute), 6+i)
	}
	return runConfig(t, Config{
		Rules: parseRules(t, severalRules), Against: parseRules(t, "rules: [{name: per-ip, key: ip, limits: [30/min]}]"), Algorithms: window.Algorithms(),
		Inputs: []Input{fromText("logs/<access>.log", text)}, FailIf: condition, Never: list, Timelines: true,
	})
}

func TestTextForPeople(t *testing.T) {
	var b strings.Builder
	if err := everything(t).WriteText(&b, TextOptions{Top: 3}); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{
		"725 requests read, 2026-03-01T12:00:00Z to 2026-03-01T13:00:39Z (1 hour)\n",
		"1 line could not be read: 1 format\n  logs/<access>.log:111 (format): <b>nonsense</b>\n",
		"per-ip  5/min by ip\n", "725 requests of 32 keys; 32 keys blocked (100.0%)",
		"key            first blocked         limit  peak  requests  refused\n    192.0.2.1      2026-03-01T12:00:05Z  5/min    60        70       60  85.7%\n",
		"and 29 more", "look  1/min by ip,path, shadow\n", "not counted: 725 that match leaves out", "the same rules under each algorithm",
		"what changes", "per-ip: 25 keys newly blocked, 0 no longer, 7 differently, 0 as before\n", "refused > 90% does not hold", "2 keys that must never be blocked would be\n  192.0.2.1, by 5/min of per-ip",
	} {
		if !strings.Contains(b.String(), wanted) {
			t.Errorf("%q is missing", wanted)
		}
	}
	if t.Failed() {
		t.Log(b.String())
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("there are colours where none were asked for")
	}
}

// The JSON forms have their fields in one order.
func TestTheJSONOfReports(t *testing.T) {
	const read, inputs = `{"requests":0,"unread":null,"from":null,"to":null,`, `"inputs":null,"samples":null,"faults":null}` + "\n"
	for want, report := range map[string]interface{ WriteJSON(io.Writer) error }{
		read + `"refused":0,"rules":null,` + inputs:                                   &Report{},
		read + `"by":"","counted":0,"without":0,"too_high":0,"values":null,` + inputs: &TopReport{},
	} {
		var b strings.Builder
		if err := report.WriteJSON(&b); err != nil || b.String() != want {
			t.Errorf("%T: %s, %v; want %s", report, b.String(), err, want)
		}
	}
}

func TestKeysALine(t *testing.T) {
	r := &Report{Rules: []RuleReport{{Blocked: []Blocked{{Key: "a"}, {Key: "b"}}}, {Blocked: []Blocked{{Key: "b"}, {Key: "c"}}}}}
	var b strings.Builder
	if err := r.WriteKeys(&b); err != nil || b.String() != "a\nb\nc\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestPageNeedsNothingElseAndTrustsNothing(t *testing.T) {
	var b strings.Builder
	r := everything(t)
	if err := r.WriteHTML(&b, HTMLOptions{Version: "1.2.3", Command: "weir backtest <access>.log", Rules: "rules: <none>"}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, unwanted := range []string{"http://", "https://", "src=", "<link", "@import", "url(", "<script>alert", "<b>nonsense", "<access>", "ZgotmplZ", "NaN", "%!"} {
		if i := strings.Index(page, unwanted); i >= 0 {
			t.Errorf("%q is in the page: %.80s", unwanted, page[max(0, i-30):])
		}
	}
	for _, wanted := range []string{
		"&lt;access&gt;.log", "Requests over time", "The worst keys, one by one", "The same rules under each algorithm", "What changes", "What could not be read",
		"refused &gt; 90% does not hold", "192.0.2.1 /&lt;script&gt;alert(1)&lt;/script&gt;", "weir 1.2.3", "rules: &lt;none&gt;", "shadow: never refused",
	} {
		if !strings.Contains(page, wanted) {
			t.Errorf("%q is missing", wanted)
		}
	}
	if cards := strings.Count(page, `<div class="card">`); cards != pageCards {
		t.Errorf("%d cards", cards)
	}
}

func TestPageOfNothing(t *testing.T) {
	var b strings.Builder
	r := runConfig(t, usualConfig(t, fromText("empty", "")))
	if err := r.WriteHTML(&b, HTMLOptions{}); err != nil || !strings.Contains(b.String(), "no requests") {
		t.Error(err)
	}
}

func TestScalesAndTicks(t *testing.T) {
	for value, top := range map[int64]int64{0: 2, 1: 2, 3: 4, 7: 8, 9: 10, 11: 20, 399: 400, 401: 500, 601: 800, 1 << 62: math.MaxInt64} {
		if got := niceTop(value); got != top {
			t.Errorf("top of %d: %d, want %d", value, got, top)
		}
	}
	for x, text := range map[float64]string{0: "0", 950: "950", 1500: "1.5k", 2e7: "20M", 3e9: "3G"} {
		if short(x) != text {
			t.Errorf("%v: %s", x, short(x))
		}
	}
	for width, text := range map[int64]string{1000: "one second", 300_000: "5 minutes", 86_400_000: "one day", 28 * 86_400_000: "4 weeks"} {
		if eachText(width) != text {
			t.Errorf("%d: %s", width, eachText(width))
		}
	}
	s := newSeries(240)
	s.at(noon.UnixMilli())
	s.at(noon.Add(50 * time.Hour).UnixMilli())
	var texts []string
	for _, tick := range timeTicks(s) {
		texts = append(texts, tick.Text)
	}
	if wanted := []string{"00:00", "12:00", "3 Mar", "12:00"}; !slices.Equal(texts, wanted) {
		t.Errorf("ticks %q", texts)
	}
}

func TestDurationsForPeople(t *testing.T) {
	for millis, text := range map[int64]string{0: "0 ms", 999: "999 ms", 61_000: "1 minute 1 second", 3_600_000: "1 hour", 90_000_000: "1 day 1 hour", 2 * 86_400_000: "2 days"} {
		if durationText(millis) != text {
			t.Errorf("%d: %s", millis, durationText(millis))
		}
	}
}

// Only the timelines of the keys that are refused most are kept.
func TestTimelinesAreBounded(t *testing.T) {
	var kept timelines
	all := make([]offence, 5*maxTimelines)
	for i := range all {
		all[i].refused = int64(i % 100)
		kept.hit(&all[i], int64(i)*1000, true)
	}
	if len(kept.kept) > maxTimelines {
		t.Errorf("%d timelines", len(kept.kept))
	}
	least := int64(100)
	for _, f := range kept.kept[:maxTimelines/2] {
		least = min(least, f.refused)
	}
	if least < 50 {
		t.Errorf("one with %d refused was kept", least)
	}
}
