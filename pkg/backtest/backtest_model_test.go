package backtest

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/pkg/rule"
)

const usualRules = `
rules:
  - name: per-ip
    key: ip/32+128
    limits: [10/min, 100/hour, 1000/day]
    block: %s
`

func parseRules(t testing.TB, text string) *rule.Set {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func fromText(name, text string) Input { return Input{Path: name, Reader: strings.NewReader(text)} }

func runConfig(t testing.TB, c Config) *Report {
	t.Helper()
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// realLog is a log of ../shared/data next to the repository.
func realLog(t testing.TB, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("../../../shared/data", name))
	if err != nil {
		t.Skipf("the real log is not here: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// slowBlocks are those that are tested on long logs too.
var slowBlocks = map[string]bool{"{for: 10m}": true, "{for: 1m, then: [5m, 1h], forget: 2h}": true}

// For real and generated logs the keys, first times, limits, peaks and refused requests are those of a textbook.
func TestBacktestDecidesAsTheTextbook(t *testing.T) {
	blocks := map[string]textbook{
		"{for: 10m}":                              {duration: 10 * time.Minute, forget: 24 * time.Hour},
		"{for: 1s}":                               {duration: time.Second, forget: 24 * time.Hour},
		"{for: 1m, then: [5m, 1h], forget: 2h}":   {duration: time.Minute, then: []time.Duration{5 * time.Minute, time.Hour}, forget: 2 * time.Hour},
		"{for: 30s, then: [1m, 2m], forget: 0s}":  {duration: 30 * time.Second, then: []time.Duration{time.Minute, 2 * time.Minute}},
		"{for: 90m, then: [1h, 3h], forget: 20m}": {duration: 90 * time.Minute, then: []time.Duration{time.Hour, 3 * time.Hour}, forget: 20 * time.Minute},
	}
	logs := map[string]func(*testing.T) string{
		"site-a":    func(t *testing.T) string { return realLog(t, "site-a.nginx-combined.log.gz") },
		"elastic":   func(t *testing.T) string { return realLog(t, "elastic-apache-combined.log.gz") },
		"generated": func(*testing.T) string { return generated(1, 60_000) },
		"another":   func(*testing.T) string { return generated(2, 60_000) },
	}
	for name, load := range logs {
		t.Run(name, func(t *testing.T) {
			text := load(t)
			lines := readLines(t, text)
			for block, book := range blocks {
				if len(lines) > 500_000 && !slowBlocks[block] {
					continue
				}
				book.limits = usualLimits
				wanted, refused := book.run(lines)
				got := runConfig(t, Config{Rules: parseRules(t, fmt.Sprintf(usualRules, block)), Inputs: []Input{fromText(name, text)}})
				if len(wanted) == 0 || got.Requests != int64(len(lines)) || got.Refused != refused || got.Rules[0].Requests != got.Requests {
					t.Errorf("%s: %d keys, %d of %d requests refused; want %d of %d", block, len(wanted), got.Refused, got.Requests, refused, len(lines))
				}
				compareBlocked(t, got.Rules[0].Blocked, wanted)
			}
		})
	}
}
