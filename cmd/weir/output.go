package main

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"weir/cmd/internal/exit"
)

// An outputFlag selects the form of a command's output: --json, or -o with one of its forms.
type outputFlag struct {
	json  bool
	form  string
	forms []string
}

// add adds the flags to a command. The first of the forms is the default.
func (o *outputFlag) add(c *cobra.Command, forms ...string) {
	o.forms = forms
	c.Flags().BoolVar(&o.json, "json", false, "write JSON, for programs; the same as -o json")
	c.Flags().StringVarP(&o.form, "output", "o", forms[0], "write `FORM`: "+strings.Join(forms, ", "))
	complete(c, "output", forms)
}

// chosen returns the form that was asked for.
func (o *outputFlag) chosen() (string, error) {
	switch {
	case !slices.Contains(o.forms, o.form):
		return "", exit.Wrongf("-o %s is not known; write one of %s", o.form, strings.Join(o.forms, ", "))
	case o.json && o.form != o.forms[0] && o.form != "json":
		return "", exit.Wrongf("--json and -o %s are both given; leave one out", o.form)
	case o.json:
		return "json", nil
	}
	return o.form, nil
}

// newJSON returns an encoder that writes one value a line, without escaping characters of HTML.
func newJSON(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// columns returns the width of the terminal; 0 when the output is not a terminal.
func columns(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return width
}

// colorful reports whether colours are wanted: on a terminal, unless NO_COLOR is set.
func colorful(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
