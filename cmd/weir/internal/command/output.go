package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
)

// An Output selects the form of a command's output: --json, or -o with one of its forms.
type Output struct {
	json  bool
	form  string
	forms []string
}

// Add adds the flags to a command. The first of the forms is the default.
func (o *Output) Add(c *cobra.Command, forms ...string) {
	o.forms = forms
	c.Flags().BoolVar(&o.json, "json", false, "write JSON, for programs; the same as -o json")
	c.Flags().StringVarP(&o.form, "output", "o", forms[0], "write `FORM`: "+strings.Join(forms, ", "))
	Complete(c, "output", forms)
}

// Chosen returns the form that was asked for.
func (o *Output) Chosen() (string, error) {
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
