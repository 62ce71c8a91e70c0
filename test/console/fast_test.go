package console

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"weir/test/real"
	"weir/test/running"
)

var fastFor = flag.Duration("fast", 20*time.Second, "how long TestAFastList changes the list")

// A list that changes 5,000 times a second stays a page of rows, and its page works. For comparison, the first figures
// are of a list that does not change.
func TestAFastList(t *testing.T) {
	real.Long(t)
	s := newStand(t)
	s.login("rob's")
	s.until("the list is live", `document.querySelector("[data-status]").textContent === "live"`)
	s.do("measuring", chromedp.Evaluate[chromedp.Void](`window.slowest = 0; window.painted = 0; (() => {
		let last = performance.now();
		const frame = (now) => { window.slowest = Math.max(window.slowest, now - last); last = now; window.painted++; requestAnimationFrame(frame); };
		requestAnimationFrame(frame);
		window.longest = 0;
		new PerformanceObserver((list) => { for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration); }).observe({type: "longtask"});
	})()`))
	time.Sleep(*fastFor / 5)
	s.figures(0, *fastFor/5)

	tasks := s.trace()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	began, put, shown := time.Now(), 0, time.Now()
	for time.Since(began) < *fastFor {
		<-ticker.C
		for wanted := int(time.Since(began).Seconds() * 5000); put < wanted; put++ {
			e := running.BlockedNow("per-ip", fmt.Sprintf("10.%d.%d.%d", put>>16&255, put>>8&255, put&255), map[string]string{"ip": "10.0.0.1"})
			e.Until = e.From + 30_000
			s.enforcer.Put(e)
		}
		if time.Since(shown) > *fastFor/5 {
			shown = time.Now()
			s.figures(put, time.Since(began))
		}
	}
	s.figures(put, time.Since(began))
	processor, took, number := tasks.longest()
	t.Logf("of %d tasks of the page, the longest had %s of a processor, and the longest took %s", number, processor, took)
	if number == 0 {
		t.Error("no task of the page was seen")
	}
	e := running.BlockedNow("per-ip", "203.0.113.1", map[string]string{"ip": "203.0.113.1"})
	s.enforcer.Put(e)
	s.until("the last one", fmt.Sprintf(rowOf, "203.0.113.1"))
	if rows := value[int](s, `document.querySelectorAll("#list tbody tr").length`); rows > 50 {
		t.Errorf("%d rows", rows)
	}
	if text := value[string](s, `document.querySelector("[data-status]").textContent`); text == "live" {
		t.Error("it does not show how many were left out")
	}
}

// figures logs what the page and the process take.
func (s *stand) figures(put int, after time.Duration) {
	s.t.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	page := value[[]float64](s, `[Math.round(window.slowest), window.painted, performance.memory.usedJSHeapSize / 1048576, document.querySelectorAll("*").length, Math.round(window.longest)]`)
	s.t.Logf("%s: %.0f changes/s; slowest frame %.0f ms of %.0f frames, longest task over 50 ms: %.0f ms, heap of the page %.1f MB, %.0f elements; heap of the process %.1f MB",
		after.Round(time.Second), float64(put)/after.Seconds(), page[0], page[1], page[4], page[2], page[3], float64(m.HeapAlloc)/1048576)
	s.do("measuring again", chromedp.Evaluate[chromedp.Void](`window.slowest = window.painted = window.longest = 0`))
}
