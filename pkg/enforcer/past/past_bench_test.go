package past

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// month makes events of thirty days in their order: most of 1.5 million addresses that are blocked by a rule, some of
// users, and the manual entries of a few persons.
func month(t testing.TB, events int, add func(*Event)) {
	r := rand.New(rand.NewPCG(16, 30))
	step := (30 * 24 * time.Hour).Milliseconds() * 100 / int64(events)
	now := int64(1_700_000_000_000) * 100
	rules := []string{"per-ip", "per-ip", "per-ip", "per-ip", "sign-in", "api", "search", "downloads"}
	var last []blocklist.Entry
	for n := range events {
		now += r.Int64N(2 * step)
		at := now / 100
		switch {
		case n%5000 == 4999:
			o := blocklist.Order{ID: fmt.Sprint("manual", n), Kind: blocklist.Kind(1 + r.IntN(2)), Scope: "ip", From: at, Until: at + r.Int64N(86_400_000) + 1,
				By: fmt.Sprint("person", r.IntN(12)), Why: "it was asked for", Value: fmt.Sprintf("100.%d.%d.0/24", r.IntN(64), r.IntN(256))}
			add(event(t, "ordered", at, *o.Entry()))
		case len(last) > 100 && r.IntN(4) == 0:
			e := &last[r.IntN(len(last))]
			e.Until = at + 600_000
			add(event(t, "extended", at, *e))
		default:
			e := blocklist.Entry{Rule: rules[r.IntN(len(rules))], From: at - 20, Until: at + 600_000, Decided: at, Limit: "100/min", Count: 101, Level: 1, By: "weir"}
			switch n := r.IntN(20); {
			case n == 0:
				e.Key = fmt.Sprintf("user%d", r.IntN(200_000))
				e.Fields = map[string]string{"user": e.Key}
			case n < 4:
				e.Key = fmt.Sprintf("2001:db8:%x:%x::/64", r.IntN(64), r.IntN(8192))
			default:
				e.Key = fmt.Sprintf("100.%d.%d.%d", r.IntN(64), r.IntN(64), r.IntN(256))
			}
			if e.Fields == nil {
				e.Fields = map[string]string{"ip": e.Key}
			}
			e.ID = blocklist.ID(e.Rule, e.Key, e.From, 1)
			if len(last) < 2000 {
				last = append(last, e)
			} else {
				last[r.IntN(len(last))] = e
			}
			add(event(t, "blocked", at, e))
		}
	}
}

// BenchmarkQuestions asks each kind of question, for the first page and for one in the middle of the month. The index has
// WEIR_EVENTS events, 200,000 unless given; with WEIR_EVENTS_FOLDER it is kept there, and used again.
func BenchmarkQuestions(b *testing.B) {
	events := 200_000
	if text := os.Getenv("WEIR_EVENTS"); text != "" {
		events, _ = strconv.Atoi(text)
	}
	folder := os.Getenv("WEIR_EVENTS_FOLDER")
	if folder == "" {
		folder = b.TempDir()
	}
	_, f := opens(b, folder)
	f.patience = patience
	if f.progress.Count == 0 {
		at := time.Now()
		var batch []*Event
		month(b, events, func(e *Event) {
			if batch = append(batch, e); len(batch) == batchEvents {
				adds(b, f, batch...)
				batch = batch[:0]
			}
		})
		adds(b, f, batch...)
		b.Logf("%d events made and indexed in %s", f.progress.Count, time.Since(at).Round(time.Second))
	}
	if err := f.look(b.Context()); err != nil {
		b.Fatal(err)
	}
	newest, err := f.Search(b.Context(), Query{Limit: 1})
	if err != nil {
		b.Fatal(err)
	}
	last, err := ReadEvent(newest.Events[0])
	if err != nil {
		b.Fatal(err)
	}
	began, ended := f.oldest.Load(), last.At
	b.Logf("%d events, %d MiB", f.progress.Count, f.bytes.Load()>>20)

	middle := began + (ended-began)/2
	for _, one := range []struct {
		name string
		Query
	}{
		{"newest", Query{}},
		{"hour", Query{Since: middle, Until: middle + 3_600_000}},
		{"rule", Query{Rule: "sign-in", Until: middle}},
		{"person", Query{By: "person7"}},
		{"person and rule without any", Query{By: "person7", Rule: "per-ip"}},
		{"lifted, none", Query{Event: "lifted"}},
		{"address", Query{Key: "100.3.7.9"}},
		{"address without any", Query{Key: "192.0.2.1"}},
		{"prefix 24", Query{Key: "100.3.7.0/24"}},
		{"prefix 20 until the middle", Query{Key: "100.3.16.0/20", Until: middle}},
		{"prefix 17", Query{Key: "100.3.0.0/17"}},
		{"prefix 8", Query{Key: "100.0.0.0/8"}},
		{"prefix 0", Query{Key: "::/0"}},
		{"prefix IPv6 32", Query{Key: "2001:db8::/32"}},
		{"prefix IPv6 44", Query{Key: "2001:db8:10::/44", Until: middle}},
		{"prefix and person", Query{Key: "100.0.0.0/10", By: "person3"}},
		{"prefix and rule", Query{Key: "100.3.0.0/16", Rule: "api"}},
		{"prefix and nothing", Query{Key: "100.0.0.0/9", Event: "lifted"}},
		{"user", Query{Key: "user:user1234"}},
		{"beginning, few", Query{Key: "user1234*"}},
		{"beginning, many", Query{Key: "user1*", Until: middle}},
		{"beginning of none", Query{Key: "zzz*"}},
		{"beginning of most", Query{Key: "100.*"}},
		{"at", Query{At: middle}},
		{"at, 1000", Query{At: middle, Limit: MaxLimit}},
		{"at, rule", Query{At: middle, Rule: "manual"}},
		{"at, address", Query{At: middle, Key: "100.3.7.9"}},
		{"at, prefix", Query{At: middle, Key: "100.3.0.0/16"}},
		{"at the end", Query{At: ended}},
	} {
		if one.Limit == 0 {
			one.Limit = UsualLimit
		}
		b.Run(one.name, func(b *testing.B) {
			worst, found, next := time.Duration(0), 0, 0
			for b.Loop() {
				at := time.Now()
				page, err := f.Search(context.Background(), one.Query)
				if err != nil {
					b.Fatal(err)
				}
				worst = max(worst, time.Since(at))
				found, next = len(page.Events), len(page.Next)
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
			b.ReportMetric(float64(found), "events")
			b.ReportMetric(float64(min(next, 1)), "more")
		})
	}
}
