package backtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/pkg/window"
)

// An asked is one request: its time and path.
type asked struct {
	at   time.Time
	path string
}

// runValues is what a textbook says of one key: when it is blocked first and by which limit, how often, and how many of its
// requests are refused. Of requests of one instant it looks at all together.
func runValues(all []asked, limits []textbookLimit, lasts time.Duration) (b Blocked) {
	slices.SortStableFunc(all, func(x, y asked) int { return x.at.Compare(y.at) })
	var counting []asked
	var until time.Time
	for i, one := range all {
		if one.at.Before(until) {
			b.Refused++
			continue
		}
		counting = append(counting, one)
		if i+1 < len(all) && all[i+1].at.Equal(one.at) {
			continue
		}
		for _, l := range limits {
			if differentPaths(counting, one.at, l.per) > l.hits {
				until, counting = one.at.Add(lasts), nil
				if b.Blocks++; b.Blocks == 1 {
					b.First, b.Limit = Instant(one.at.UnixMilli()), l.text
				}
				b.Refused++
				break
			}
		}
	}
	return b
}

func differentPaths(all []asked, at time.Time, per time.Duration) int {
	paths := map[string]bool{}
	for _, one := range all {
		if one.at.After(at.Add(-per)) && !one.at.After(at) {
			paths[one.path] = true
		}
	}
	return len(paths)
}

// A backtest of different values decides as a textbook, for lines that come late too.
func TestBacktestOfDifferentValues(t *testing.T) {
	text := generated(3, 8000)
	byKey := map[string][]asked{}
	for i, l := range readLines(t, text) {
		line := strings.Split(text, "\n")[i]
		_, rest, _ := strings.Cut(line, "GET ")
		path, _, _ := strings.Cut(rest, "?")
		key := l.key
		if ip := netip.MustParseAddr(l.key); ip.Is6() {
			prefix, _ := ip.Prefix(64)
			key = prefix.String()
		}
		byKey[key] = append(byKey[key], asked{l.at, path})
	}
	limits := []textbookLimit{{10, time.Hour, "10 different paths within an hour"}}
	for _, lasts := range []time.Duration{10 * time.Minute, time.Minute} {
		set := parseRules(t, fmt.Sprintf("rules: [{name: a, key: ip, distinct: path, limits: [10/hour], block: {for: %s}}]", lasts))
		got := runConfig(t, Config{Rules: set, Inputs: []Input{fromText("log", text)}}).Rules[0].Blocked
		want := map[string]Blocked{}
		for key, all := range byKey {
			if b := runValues(all, limits, lasts); b.Blocks > 0 {
				want[key] = b
			}
		}
		if len(want) < 20 || len(got) != len(want) {
			t.Errorf("%s: %d keys are blocked, want %d", lasts, len(got), len(want))
		}
		for _, b := range got {
			w := want[b.Key]
			// Of requests of the instant at which a block begins, those before the one that is too many are not refused.
			if b.First != w.First || b.Limit != w.Limit || b.Blocks != w.Blocks || b.Refused < w.Refused || b.Peak < 11 || b.Peak > 50 {
				t.Errorf("%s: %+v, want %+v", lasts, b, w)
			}
		}
	}
}

// Suggestions leave rules of different values out, and say so; other algorithms do not count them, so they stay as they are.
func TestDifferentValuesInOtherReports(t *testing.T) {
	input := writeFile(t, "access.log", []byte(generated(3, 5000)))
	set := parseRules(t, "rules: [{name: a, key: ip, distinct: path, limits: [20/hour]}, {name: b, key: ip, limits: [100/hour]}]")
	s, err := Suggest(t.Context(), Config{Rules: set, Inputs: []Input{input}})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := s.WriteText(&text, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if a, b := s.Rules[0], s.Rules[1]; !a.Distinct || len(a.Limits) > 0 || b.Distinct || len(b.Limits) == 0 || !strings.Contains(text.String(), "rule a counts different values; it is left out here") {
		t.Errorf("%+v\n%s", s.Rules, text.String())
	}

	r := runConfig(t, Config{Rules: set, Inputs: []Input{input}, Algorithms: []window.Algorithm{window.Token}})
	if own, other := r.Rules[0], r.Algorithms[0].Rules[0]; other.Algorithm != "sliding" || other.Refused != own.Refused {
		t.Errorf("%+v, under another algorithm %+v", own, other)
	}
}

// The peak of different values is that of a slow count, of the hits that it was given.
func TestPeakOfDifferentValues(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		per := 1 + random.Int64N(50)
		d := newDifferent(per)
		var all []valueAt
		at := int64(1000)
		for range 300 {
			at += random.Int64N(5)
			one := valueAt{at, random.Uint64N(20)}
			all = append(all, one)
			values := map[uint64]bool{}
			for _, other := range all {
				if other.at > at-per {
					values[other.value] = true
				}
			}
			if got := d.hit(one.at, one.value); got != int64(len(values)) {
				t.Fatalf("%d, want %d", got, len(values))
			}
		}
	}
	d := newDifferent(1 << 40)
	for i := range 3 * maxInstants {
		d.hit(int64(i), uint64(i))
	}
	if len(d.last) > maxInstants || cap(d.hits) > 4*maxInstants {
		t.Errorf("%d values and %d hits are kept", len(d.last), cap(d.hits))
	}
}

// Hits with a value stay two records each, whatever waits and in whatever order.
func TestRecordsWithValues(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	r := newReorder(time.Minute)
	for i := range 5000 {
		at := int64(i*7) + random.Int64N(20_000)/10*10
		if random.IntN(2) == 0 {
			r.add(newRecord(at, 0, i, 1, false))
			continue
		}
		for _, rec := range newRecord(at, 0, i, 1, random.IntN(2) == 0).withValue(uint64(i)<<40 | uint64(at)) {
			r.add(rec)
		}
	}
	var found int
	for _, records := range r.rest(nil) {
		for i := 0; i < len(records); i++ {
			if records[i].cost != valueFollows {
				continue
			}
			key, at := records[i].key, records[i].at()
			i++
			if found++; records[i].value() != uint64(key)<<40|uint64(at) {
				t.Fatalf("the value %x follows hit %d", records[i].value(), key)
			}
		}
	}
	if found < 2000 {
		t.Errorf("%d hits with a value", found)
	}
}
