package offline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"weir/pkg/backtest"
)

// tryPage opens the page's file before the work, so that a wrong path is reported at once. An existing page is kept until
// the new one is written.
func (b *backtestCommand) tryPage() error {
	if b.html == "" {
		return nil
	}
	page, err := os.OpenFile(b.html, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return page.Close()
}

func (b *backtestCommand) writePage(report *backtest.Report, command string) error {
	if b.html == "" {
		return nil
	}
	page, err := os.Create(b.html)
	if err != nil {
		return err
	}
	o := backtest.HTMLOptions{Version: b.version, Command: command, Rules: b.rulesText()}
	return errors.Join(report.WriteHTML(page, o), page.Close())
}

// rulesText returns the files of rules for the page; empty with --limit.
func (b *backtestCommand) rulesText() string {
	var text strings.Builder
	for _, pattern := range b.rules {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil {
				fmt.Fprintf(&text, "# %s\n%s\n", file, data)
			}
		}
	}
	return text.String()
}
