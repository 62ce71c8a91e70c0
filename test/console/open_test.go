package console

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	jsruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"weir/test/real"
	"weir/test/running"
)

var openFor = flag.Duration("open", time.Minute, "how long TestALongOpenPage has the page open")

// A page that is open for long takes no more memory than at its beginning, and the server neither. The list changes 50
// times a second, and entries end after a minute.
func TestALongOpenPage(t *testing.T) {
	real.Long(t)
	s := newStand(t)
	s.login("rob's")
	s.until("the list is live", `document.querySelector("[data-status]").textContent === "live"`)

	const perSecond = 50
	every := *openFor / 60
	began, put, next := time.Now(), 0, every
	var first, last float64
	for after := time.Duration(0); after < *openFor; after = time.Since(began) {
		time.Sleep(50 * time.Millisecond)
		for wanted := int(time.Since(began).Seconds() * perSecond); put < wanted; put++ {
			e := running.BlockedNow("per-ip", fmt.Sprintf("10.%d.%d.%d", put>>16&255, put>>8&255, put&255), map[string]string{"ip": "10.0.0.1"})
			e.Until = e.From + 60_000
			s.enforcer.Put(e)
		}
		if after < next {
			continue
		}
		next += every
		last = s.memory(put, after)
		if first == 0 && after > *openFor/10 { // the list has reached its size
			first = last
		}
		if int(next/every)%10 == 0 { // a session lasts an hour without a page
			s.do("another page", chromedp.Evaluate[chromedp.Void](`fetch("/console/rules").then(() => 0)`, chromedp.EvalAwaitPromise))
		}
	}
	if first == 0 || last > first+2 {
		t.Errorf("the heap of the page: %.2f MB at first, %.2f MB at last", first, last)
	}
	s.until("it is live still", `document.querySelector("[data-status]").textContent.startsWith("live")`)
}

// memory logs what the page and the process take after a collection, and returns the heap of the page in megabytes.
func (s *stand) memory(put int, after time.Duration) float64 {
	s.t.Helper()
	s.do("a collection", func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, heapprofiler.CollectGarbage, cdp.Empty{})
		return chromedp.Void{}, err
	})
	heap := run(s, "its heap", func(ctx context.Context, t *chromedp.Target) (float64, error) {
		result, err := cdp.Call(ctx, t, jsruntime.GetHeapUsage, cdp.Empty{})
		return result.UsedSize / 1048576, err
	})
	elements := value[int](s, `document.querySelectorAll("*").length`)
	s.t.Logf("%s: %d changes; heap of the page %.2f MB, %d elements; process %s", after.Round(time.Second), put, heap, elements, resident())
	return heap
}

// resident is what the process has in memory.
func resident() string {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if size, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(size)
		}
	}
	return "unknown"
}
