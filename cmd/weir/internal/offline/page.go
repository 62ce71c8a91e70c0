package offline

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"weir/pkg/backtest"
)

func (b *backtestCommand) writePage(report *backtest.Report, command string) error {
	o := backtest.HTMLOptions{Version: b.version, Command: command, Rules: b.rulesText()}
	return b.html.Write(func(w io.Writer) error { return report.WriteHTML(w, o) })
}

// rulesText returns the files of rules for the page; empty with --limit, and for rules within weir.yaml.
func (b *backtestCommand) rulesText() string {
	var text strings.Builder
	for _, pattern := range b.rulesFiles {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil {
				fmt.Fprintf(&text, "# %s\n%s\n", file, data)
			}
		}
	}
	return text.String()
}
