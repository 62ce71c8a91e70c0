package output

import (
	"cmp"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A Progress shows how far a command has got. It shows nothing unless standard error is a terminal.
type Progress struct {
	stderr io.Writer
	doing  string
	bar    *progressbar.ProgressBar
}

// NewProgress returns the progress of doing something, such as sending.
func NewProgress(stderr io.Writer, doing string) *Progress {
	return &Progress{stderr: stderr, doing: doing}
}

// Show draws the bar. A total of 0 means that the total is not known. Only one goroutine may call it.
func (p *Progress) Show(done, total int64) {
	if !IsTerminal(p.stderr) {
		return
	}
	total = cmp.Or(total, -1)

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

// Done removes the bar.
func (p *Progress) Done() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
