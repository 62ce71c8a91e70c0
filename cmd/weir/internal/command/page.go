package command

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// A Page is the flag --html: the file that a page is written to.
type Page struct{ file string }

// Add adds the flag to a command.
func (p *Page) Add(c *cobra.Command) {
	c.Flags().StringVar(&p.file, "html", "", "write a page with plots to `FILE`")
}

// Wanted reports whether a page was asked for.
func (p *Page) Wanted() bool { return p.file != "" }

// Try opens the file before the work, so that a wrong path is reported at once. An existing page is kept until the new one is
// written.
func (p *Page) Try() error {
	if p.file == "" {
		return nil
	}
	file, err := os.OpenFile(p.file, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// Write writes the page, if one was asked for.
func (p *Page) Write(write func(w io.Writer) error) error {
	if p.file == "" {
		return nil
	}
	file, err := os.Create(p.file)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
