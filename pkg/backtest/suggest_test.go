package backtest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/request"
	"weir/pkg/rule"
)

func suggestSet(t *testing.T, text string) *rule.Set {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func suggestLog(t *testing.T, text string) []Input {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []Input{{Path: path}}
}

// The peaks are those of a program that tries every span; what the limits would have done is what a backtest shows.
func TestSuggestionsAreThoseOfASlowProgram(t *testing.T) {
	const rules = `rules:
  - {name: all, key: ip, limits: [5/min, 7/hour]}
  - {name: costs, key: path, cost: status, limits: [1000/min], algorithm: token, match: path != "/p3"}
  - {name: nothing, key: user, limits: [5/min], mode: shadow}
`
	for seed := range uint64(3) {
		text := generatedOf(seed, 3000, 300, 3)
		inputs := suggestLog(t, text)
		got, err := Suggest(t.Context(), Config{Rules: suggestSet(t, rules), Inputs: inputs})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range slowWindows(t, text) {
			var found [][6]int64
			for _, w := range got.Rules[i].Windows {
				found = append(found, [6]int64{w.Half, w.P99, w.P999, w.Most, got.Rules[i].Keys, w.Over})
			}
			for n := range want {
				over := int64(0)
				for _, peak := range want[n] {
					if peak > got.Rules[i].Windows[n].Suggested {
						over++
					}
				}
				of := func(share float64) int64 { return want[n][max(0, ceil(share*float64(len(want[n])))-1)] }
				if slow := [6]int64{of(0.5), of(0.99), of(0.999), of(1), int64(len(want[n])), over}; found[n] != slow {
					t.Errorf("seed %d, rule %d, window %d: %v, want %v", seed, i, n, found[n], slow)
				}
			}
		}
		if nothing := got.Rules[2]; nothing.Keys != 0 || len(nothing.Limits) != 0 || len(nothing.Windows) != 0 {
			t.Errorf("proposed of nothing: %+v", nothing)
		}

		again := strings.Replace(rules, "5/min, 7/hour", strings.Join(got.Rules[0].Limits, ", "), 1)
		again = strings.Replace(again, "1000/min", got.Rules[1].Limits[0], 1)
		report, err := Run(t.Context(), Config{Rules: suggestSet(t, again), Inputs: inputs})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			r, s := report.Rules[i], got.Rules[i]
			if !reflect.DeepEqual(r.Blocked, s.Blocked) || r.Refused != s.Refused || !slices.Equal(r.Limits, s.Limits) {
				t.Errorf("rule %d: a backtest shows\n%v\nand the suggestion\n%v", i, r, s)
			}
		}
	}
}

func ceil(f float64) int {
	n := int(f)
	if float64(n) < f {
		n++
	}
	return n
}

// slowWindows are the sorted peaks of the windows of the first two rules.
func slowWindows(t *testing.T, text string) [][][]int64 {
	t.Helper()
	parser, err := request.NewParser("combined", request.Options{})
	if err != nil {
		t.Fatal(err)
	}
	byIP, byPath := map[string][]instant{}, map[string][]instant{}
	ip, _ := rule.ParseKey("ip")
	for line := range strings.Lines(text) {
		var r request.Request
		if err := parser.Parse(line, &r); err != nil {
			t.Fatal(err)
		}
		key, _ := ip.Append(nil, &r)
		byIP[string(key)] = append(byIP[string(key)], instant{r.UnixMilli, 1})
		if r.Path != "/p3" {
			path := strings.Clone(r.Path)
			byPath[path] = append(byPath[path], instant{r.UnixMilli, int64(r.Status)})
		}
	}
	peaks := func(of map[string][]instant, span time.Duration) (all []int64) {
		for _, hits := range of {
			slices.SortFunc(hits, func(a, b instant) int { return cmp.Compare(a.at, b.at) })
			most := int64(0)
			for _, h := range hits {
				most = max(most, sumWithin(hits, h.at-span.Milliseconds(), h.at))
			}
			all = append(all, most)
		}
		slices.Sort(all)
		return all
	}
	return [][][]int64{{peaks(byIP, time.Minute), peaks(byIP, time.Hour)}, {peaks(byPath, time.Minute)}}
}

// A limit lies in the widest gap near the top, or is twice the highest peak.
func TestProposals(t *testing.T) {
	many := func(n int, peak int64) []int64 { return slices.Repeat([]int64{peak}, n) }
	for _, c := range []struct {
		name  string
		peaks []int64
		ones  int64
		want  int64
	}{
		{"no keys", nil, 0, 10},
		{"one hit each", nil, 50, 10},
		{"no gap", []int64{10, 20, 40, 60}, 0, 120},
		{"three times is no gap", append(many(100, 20), 60), 0, 120},
		{"more is one, and the limit is rounded up", append(many(100, 20), 61), 0, 40},
		{"the widest of two", append(many(100, 20), 100, 1000), 0, 400},
		{"a narrow one has no round number", append(many(100, 4), 25, 26), 0, 10},
		{"few hits are not out of line", append(many(100, 2), 9), 0, 20},
		{"below the top twentieth none is looked for", append(many(50, 10), many(50, 100)...), 0, 200},
		{"one in twenty may be out of line", append(many(95, 10), many(5, 100)...), 0, 40},
		{"keys with one hit are keys", many(5, 1000), 95, 40},
	} {
		if got := proposal(c.peaks, c.ones); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// On random peaks, a proposal in a gap blocks exactly the keys above it, and is never at or below the lower side.
func TestProposalsStayInTheGap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		peaks := make([]int64, 1+random.IntN(200))
		for i := range peaks {
			peaks[i] = 2 + int64(random.ExpFloat64()*random.ExpFloat64()*50)
		}
		slices.Sort(peaks)
		got := proposal(peaks, int64(random.IntN(100)))
		most := peaks[len(peaks)-1]
		if got < leastLimit {
			t.Fatalf("%d of %v", got, peaks)
		}
		if got >= most {
			if got < headroom*most && got != leastLimit {
				t.Fatalf("%d is no room above %d", got, most)
			}
			continue
		}
		first, _ := slices.BinarySearch(peaks, got+1)
		lower := int64(1)
		if first > 0 {
			lower = peaks[first-1]
		}
		if higher := peaks[first]; higher <= widerThan*lower || float64(got) < 1.5*float64(lower) {
			t.Fatalf("%d lies between %d and %d", got, lower, higher)
		}
	}
}

// Limits that others make useless are left out.
func TestUselessLimitsAreLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"40/min 250/hour 100/day":   "[40/min 100/day]",
		"40/min 400/hour 1000/day":  "[40/min 400/hour 1000/day]",
		"40/min 40/hour":            "[40/hour]",
		"10/min 600/hour 5000/day":  "[10/min 5000/day]",
		"100/day 10/min":            "[10/min 100/day]",
		"10/90s 20/10min 30/14days": "[10/90s 20/10min 30/2week]",
		"":                          "[]",
	} {
		var windows []Window
		for _, one := range strings.Fields(text) {
			limit, err := rule.ParseLimit(strings.Replace(one, "14days", "14d", 1))
			if err != nil {
				t.Fatal(err)
			}
			windows = append(windows, Window{Suggested: limit.Hits, span: limit.Per})
		}
		if got := fmt.Sprint(limitsOf(windows)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// Standard input, no rules, and too many windows are refused; inline rules are left out.
func TestSuggestRefuses(t *testing.T) {
	inputs := suggestLog(t, generated(1, 50))
	set := suggestSet(t, "rules: [{name: a, key: ip, limits: [5/min]}, {name: b, key: ip, limits: [5/30s], inline: true}]")
	if _, err := Suggest(t.Context(), Config{Rules: set, Inputs: []Input{{Path: "stdin", Reader: strings.NewReader("")}}}); !errors.Is(err, errReadOnce) {
		t.Error(err)
	}
	if _, err := Suggest(t.Context(), Config{Inputs: inputs}); !errors.Is(err, errNoRules) {
		t.Error(err)
	}
	var rules []string
	for i := range mostSuggests + 1 {
		rules = append(rules, fmt.Sprintf("{name: r%d, key: ip, limits: [5/%ds]}", i, i+1))
	}
	if _, err := Suggest(t.Context(), Config{Rules: suggestSet(t, "rules: ["+strings.Join(rules, ", ")+"]"), Inputs: inputs}); err == nil {
		t.Error("a log is read ten times")
	}

	got, err := Suggest(t.Context(), Config{Rules: set, Inputs: inputs})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := got.WriteText(&text, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if !got.Rules[1].Inline || len(got.Rules[1].Limits) > 0 || !strings.Contains(text.String(), leftOut("b")) || !strings.Contains(text.String(), "limits: [30/min]") {
		t.Errorf("%s", text.String())
	}
}

// A log of some minutes shows nothing about a day.
func TestShortLogsHaveNoLongWindows(t *testing.T) {
	log := strings.Repeat("192.0.2.1 - - [03/Mar/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n", 20) +
		"192.0.2.1 - - [03/Mar/2026:08:25:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"\n"
	s, err := Suggest(t.Context(), Config{Rules: suggestSet(t, "rules: [{name: a, key: ip, limits: [1/min, 1/hour, 1/day]}]"), Inputs: suggestLog(t, log)})
	if err != nil {
		t.Fatal(err)
	}
	var windows []string
	for _, w := range s.Rules[0].Windows {
		windows = append(windows, w.Per)
	}
	if fmt.Sprint(windows) != "[min hour]" {
		t.Errorf("windows %v", windows)
	}
}
