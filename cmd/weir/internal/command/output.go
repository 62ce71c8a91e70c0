package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
)

// An Output selects the form of a command's output: --json, or -o with one of its forms.
type Output struct {
	Form  string // one of the forms, from Check on
	json  bool
	forms []string
}

// Add adds the flags to a command, which checks them before it runs. The first of the forms is the default.
func (o *Output) Add(c *cobra.Command, forms ...string) {
	o.forms = forms
	c.Flags().BoolVar(&o.json, "json", false, "write JSON, for programs; the same as -o json")
	c.Flags().StringVarP(&o.Form, "output", "o", forms[0], "write `FORM`: "+strings.Join(forms, ", "))
	Complete(c, "output", forms)
	c.PreRunE = func(*cobra.Command, []string) error { return o.Check() }
}

// Check checks the flags, and sets the form that was asked for.
func (o *Output) Check() error {
	switch {
	case !slices.Contains(o.forms, o.Form):
		return exit.Wrongf("-o %s is not known; write one of %s", o.Form, strings.Join(o.forms, ", "))
	case o.json && o.Form != o.forms[0] && o.Form != "json":
		return exit.Wrongf("--json and -o %s are both given; leave one out", o.Form)
	case o.json:
		o.Form = "json"
	}
	return nil
}
