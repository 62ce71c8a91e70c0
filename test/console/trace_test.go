package console

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// A trace is what Chromium notes of the tasks of its threads.
type trace struct {
	stand *stand
	parts chan []string
}

// trace begins to note tasks.
func (s *stand) trace() *trace {
	s.t.Helper()
	t := &trace{s, make(chan []string, 1<<16)}
	err := chromedp.Listen(s.tab, func(event any) {
		switch e := event.(type) {
		case *tracing.EventDataCollected:
			part := make([]string, len(e.Value))
			for i, text := range e.Value {
				part[i] = string(text)
			}
			t.parts <- part
		case *tracing.EventTracingComplete:
			close(t.parts)
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.do("tracing", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{IncludedCategories: []string{"toplevel"}}})
		return chromedp.Void{}, err
	})
	return t
}

// longest ends the trace, and returns the longest task of the page's main thread: its processor time, and the time that
// it took, in which others may have had the processor. It returns the number of tasks too.
func (t *trace) longest() (processor, took time.Duration, tasks int) {
	s := t.stand
	s.t.Helper()
	s.do("the end of tracing", func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, tracing.End, cdp.Empty{})
		return chromedp.Void{}, err
	})
	type event struct {
		Name     string
		Pid, Tid int
		Dur      int64 // microseconds
		Tdur     int64
		Args     struct{ Name string }
	}
	main, all := map[[2]int]bool{}, []event{}
	for part := range t.parts {
		for _, text := range part {
			var e event
			if json.Unmarshal([]byte(text), &e) != nil {
				continue
			}
			if e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
				main[[2]int{e.Pid, e.Tid}] = true
			}
			if strings.HasSuffix(e.Name, "RunTask") {
				all = append(all, e)
			}
		}
	}
	for _, e := range all {
		if main[[2]int{e.Pid, e.Tid}] {
			tasks++
			processor, took = max(processor, time.Duration(e.Tdur)*time.Microsecond), max(took, time.Duration(e.Dur)*time.Microsecond)
		}
	}
	return processor, took, tasks
}
