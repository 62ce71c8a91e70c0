package crowdsec

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// BenchmarkStream measures a bouncer with many entries in a real list: a poll of an unchanged list, one after an entry
// was added, for which everything is compared, and a startup after that, with the time to its first byte. The first
// poll measures the table's memory.
func BenchmarkStream(b *testing.B) {
	for _, entries := range []int{10_000, 1_000_000} {
		s := &site{list: newList(), folder: b.TempDir(), now: time.Now()}
		s.open()
		s.List = listOf(b, entries, s.now)
		before := heap()
		s.ask("GET", "/v1/decisions/stream", "")
		taken := float64(heap()-before) / float64(entries)
		b.Run(fmt.Sprintf("nothing-new/%d", entries), func(b *testing.B) {
			for b.Loop() {
				s.now = s.now.Add(time.Minute)
				s.ask("GET", "/v1/decisions/stream", "")
			}
			b.ReportMetric(taken, "table-bytes/entry")
		})
		b.Run(fmt.Sprintf("one-new/%d", entries), func(b *testing.B) {
			for b.Loop() {
				s.now = s.now.Add(time.Minute)
				edit(b, s)
				s.ask("GET", "/v1/decisions/stream", "")
			}
		})
		b.Run(fmt.Sprintf("startup/%d", entries), func(b *testing.B) {
			first := time.Duration(0)
			for b.Loop() {
				s.now = s.now.Add(time.Minute)
				edit(b, s)
				w := &discarding{began: time.Now()}
				s.mux.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/v1/decisions/stream", RawQuery: "startup=true"},
					Header: http.Header{"X-Api-Key": {"key-of-edge"}}})
				first += w.first
			}
			b.ReportMetric(float64(first.Milliseconds())/float64(b.N), "ms-to-first-byte")
		})
	}
}

// edit blocks one more address, always the same.
func edit(b *testing.B, s *site) {
	order := &blocklist.Order{ID: "1", Kind: blocklist.OrderBlock, Scope: "ip", Value: "203.0.113.7", From: 1, Until: s.now.Add(time.Hour).UnixMilli(), By: "b", Why: "w"}
	if err := s.List.(*blocklist.Set).Order(order, s.now.UnixMilli()); err != nil {
		b.Fatal(err)
	}
}

// listOf returns a complete list of that many addresses.
func listOf(b *testing.B, entries int, now time.Time) *blocklist.Set {
	set := blocklist.NewSet(blocklist.Limits{})
	filling := set.Fill()
	for i := range entries {
		key := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		e := &blocklist.Entry{ID: blocklist.ID("per-ip", key, int64(i), 1), Rule: "per-ip", Key: key, Fields: map[string]string{"ip": key},
			From: now.UnixMilli(), Decided: now.UnixMilli(), Until: now.Add(1000 * time.Hour).UnixMilli(), Limit: "10/min", Count: 11, Level: 1, By: "weir"}
		value, err := e.Append(nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := filling.Apply(now.UnixMilli(), blocklist.Change{Offset: int64(i), Key: blocklist.RecordKey(e.Rule, e.Key), Value: value}); err != nil {
			b.Fatal(err)
		}
	}
	filling.Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "test", Epoch: 1}}, Whole: true, AsOf: now.UnixMilli()}, now.UnixMilli())
	return set
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A discarding writer notes when the first byte came.
type discarding struct {
	header http.Header
	began  time.Time
	first  time.Duration
}

func (d *discarding) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}

func (d *discarding) WriteHeader(int) {}

func (d *discarding) Flush() {}

func (d *discarding) Write(p []byte) (int, error) {
	if d.first == 0 {
		d.first = time.Since(d.began)
	}
	return len(p), nil
}
