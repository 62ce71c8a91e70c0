package console

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/rule"
)

var quiet = slog.New(slog.DiscardHandler)

// million is a list of a million verdicts: over addresses, one in five over IPv6 networks, one in ten in shadow.
var million = sync.OnceValue(func() *blocklist.Set {
	set, random, now := blocklist.NewSet(blocklist.Limits{}), rand.New(rand.NewPCG(1, 1)), time.Now().UnixMilli()
	filling := set.Fill()
	for i := range 1_000_000 {
		key := netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), byte(random.IntN(256))}).String()
		if i%5 == 0 {
			key = fmt.Sprintf("2001:db8:%x:%x::/64", i>>8, i&255)
		}
		e := &blocklist.Entry{ID: blocklist.ID("per-ip", key, now, 1), Rule: "per-ip", Key: key, Fields: map[string]string{"ip": key}, From: now - int64(i), Until: now + 36_000_000,
			Decided: now - int64(random.IntN(1_000_000)), Limit: "100/min", Count: 101, Level: 1, By: "weir"}
		if i%10 == 0 {
			e.Mode = blocklist.Shadow
		}
		value, err := e.Append(nil)
		if err != nil {
			panic(err)
		}
		if err := filling.Apply(now, blocklist.Change{Offset: int64(i), Key: blocklist.RecordKey(e.Rule, e.Key), Value: value}); err != nil {
			panic(err)
		}
	}
	filling.Swap(blocklist.State{Version: blocklist.Version{List: blocklist.ListID{Name: "test", Epoch: 1}, Offset: 1_000_000}, Whole: true, AsOf: now}, now)
	return set
})

// BenchmarkSearch searches a list of a million entries. The CPU time is that of the process, so it includes the garbage
// collector's, and does not depend on what else the machine does.
func BenchmarkSearch(b *testing.B) {
	c := New(Config{Set: million(), Rules: func() *rule.Set { return nil }, Logger: quiet})
	for name, text := range map[string]string{
		"all": "", "part": "q=13.37", "address": "q=7.161.32.99", "prefix": "q=7.161.0.0/16", "user": "q=user:alice", "page": "before=" + place{decided: time.Now().UnixMilli() - 500_000}.String(),
		"rules": "group=rule", "networks": "group=network",
	} {
		values, err := url.ParseQuery(text)
		if err != nil {
			b.Fatal(err)
		}
		q, err := readQuery(values)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			before := cpuUsed(b)
			for b.Loop() {
				c.search(q, time.Now().UnixMilli())
			}
			b.ReportMetric(float64((cpuUsed(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

func cpuUsed(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
