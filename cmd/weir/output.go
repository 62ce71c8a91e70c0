package main

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// An outputFlag is the form of what a command shows: --json, or -o with one of its forms.
type outputFlag struct {
	json  bool
	form  string
	forms []string
}

// add gives a command the flags. The first of the forms is the usual one.
func (o *outputFlag) add(c *cobra.Command, forms ...string) {
	o.forms = forms
	c.Flags().BoolVar(&o.json, "json", false, "write JSON, for programs; the same as -o json")
	c.Flags().StringVarP(&o.form, "output", "o", forms[0], "write `FORM`: "+strings.Join(forms, ", "))
	complete(c, "output", forms)
}

// chosen is the form that was asked for.
func (o *outputFlag) chosen() (string, error) {
	switch {
	case !slices.Contains(o.forms, o.form):
		return "", wrongf("-o %s is not known; write one of %s", o.form, strings.Join(o.forms, ", "))
	case o.json && o.form != o.forms[0] && o.form != "json":
		return "", wrongf("--json and -o %s are both given; leave one out", o.form)
	case o.json:
		return "json", nil
	}
	return o.form, nil
}

// newJSON writes one value a line, and addresses and paths as they are.
func newJSON(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder
}

// isTerminal says whether a person watches what is written to a stream, or types what is read of it.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// columns is the width of the terminal; 0 where there is none.
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

// colorful says whether colours are wanted: on a terminal, unless NO_COLOR is set.
func colorful(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
