package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress shows how far a command has got. It shows nothing unless standard error is a terminal.
type progress struct {
	stderr io.Writer
	doing  string
	bar    *progressbar.ProgressBar
}

func newProgress(stderr io.Writer, doing string) *progress {
	return &progress{stderr: stderr, doing: doing}
}

// show draws the bar. A total of 0 means that the total is not known. Only one goroutine may call it.
func (p *progress) show(done, total int64) {
	if !isTerminal(p.stderr) {
		return
	}
	if total == 0 {
		total = -1
	}

	if p.bar == nil {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(p.stderr),
			progressbar.OptionSetDescription(p.doing),
			progressbar.OptionShowBytes(true),
			progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}

	_ = p.bar.Set64(done) // the work goes on without a bar
}

// done removes the bar.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
