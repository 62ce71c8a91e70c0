package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress shows a person how far something has got. It shows nothing where nobody watches.
type progress struct {
	stderr io.Writer
	doing  string
	bar    *progressbar.ProgressBar
}

func newProgress(stderr io.Writer, doing string) *progress {
	return &progress{stderr: stderr, doing: doing}
}

// show is called now and then, by one goroutine. A total of 0 is one that is not known.
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

	_ = p.bar.Set64(done) // a bar that cannot be drawn stops nothing
}

// done takes the bar away.
func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
