package backtest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Requests that stand twice or thrice, in one log or in several, count as they do in a log that has each once.
func TestRepeatedRequestsCountOnce(t *testing.T) {
	const format = `$remote_addr [$time_iso8601] "$request" $status $request_id`
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 1))
		var once strings.Builder
		files := make([]strings.Builder, 1+random.IntN(3))
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		repeats := int64(0)
		for i := range 3000 {
			at = at.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
			id := fmt.Sprint("id-", i)
			if random.IntN(20) == 0 {
				id = "-"
			}
			line := fmt.Sprintf("203.0.113.%d [%s] \"GET / HTTP/1.1\" 200 %s\n", random.IntN(20), at.Format(time.RFC3339), id)
			once.WriteString(line)
			times := 1
			if id != "-" {
				times += random.IntN(3)
			}
			for n := range times {
				files[(random.IntN(len(files))+n)%len(files)].WriteString(line)
				repeats += int64(min(n, 1))
			}
		}

		config := Config{Rules: parseRules(t, "rules: [{name: per-ip, key: ip, limits: [10/min, 40/h], block: {for: 5m}}]"), Format: format,
			Dedupe: Dedupe{By: "request_id", Within: time.Minute, Most: 1000}, Inputs: []Input{writeFile(t, "once.log", []byte(once.String()))}}
		want := runOf(t, config)
		config.Inputs = nil
		for i := range files {
			if text := files[i].String(); text != "" {
				config.Inputs = append(config.Inputs, writeFile(t, fmt.Sprintf("%d.log", i), []byte(text)))
			}
		}
		got := runOf(t, config)
		if want.Seen != 0 || got.Seen != repeats || got.Requests != want.Requests+repeats {
			t.Errorf("seed %d: of %d requests %d were seen before, want %d of %d", seed, got.Requests, got.Seen, repeats, want.Requests+repeats)
		}
		if len(want.Rules[0].Blocked) == 0 || !reflect.DeepEqual(got.Rules, want.Rules) {
			t.Errorf("seed %d: the rules have\n%+v\nwant\n%+v", seed, got.Rules, want.Rules)
		}
		config.Dedupe = Dedupe{}
		if all := runOf(t, config); all.Seen != 0 || all.Rules[0].Requests != got.Requests {
			t.Errorf("seed %d: without dedupe %d requests count, %d were seen", seed, all.Rules[0].Requests, all.Seen)
		}
	}
}

// A request that no rule counts is seen all the same, as by a collector.
func TestARequestWithoutHitsIsSeen(t *testing.T) {
	lines := `203.0.113.7 [2026-03-01T12:00:00Z] "GET / HTTP/1.1" 304 a` + "\n" + `203.0.113.7 [2026-03-01T12:00:00Z] "GET / HTTP/1.1" 200 a` + "\n"
	report := runOf(t, Config{Rules: parseRules(t, "rules: [{name: per-ip, key: ip, match: status == 200, limits: [10/min]}]"),
		Format: `$remote_addr [$time_iso8601] "$request" $status $request_id`, Dedupe: Dedupe{By: "request_id", Within: time.Minute, Most: 1000},
		Inputs: []Input{writeFile(t, "a.log", []byte(lines))}})
	if report.Seen != 1 || report.Rules[0].Requests != 0 {
		t.Errorf("%d seen, %d counted", report.Seen, report.Rules[0].Requests)
	}
	var text strings.Builder
	if err := report.WriteText(&text, TextOptions{}); err != nil || !strings.Contains(text.String(), "1 request not counted, as seen before") {
		t.Errorf("the report has %s, %v", text.String(), err)
	}
}

// A client that makes its lines so long that they are cut off within the id counts all the same.
func TestIDsThatAreCutOffAreNotRepeated(t *testing.T) {
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, "203.0.113.7 [2026-03-01T12:00:%02dZ] \"GET /%s HTTP/1.1\" 200 \"%x\n", i%60, strings.Repeat("a", 1000), i%16)
	}
	report := runOf(t, Config{Rules: parseRules(t, "rules: [{name: per-ip, key: ip, limits: [10/min]}]"),
		Format: `$remote_addr [$time_iso8601] "$request" $status "$request_id"`, Dedupe: Dedupe{By: "request_id", Within: time.Minute, Most: 1000},
		Inputs: []Input{writeFile(t, "a.log", []byte(lines.String()))}})
	if report.Seen != 0 || report.Rules[0].Requests != 100 {
		t.Errorf("%d seen, %d counted", report.Seen, report.Rules[0].Requests)
	}
}

func runOf(t *testing.T, c Config) *Report {
	t.Helper()
	report, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return report
}
