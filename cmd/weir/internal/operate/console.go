package operate

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/ask"
	"weir/cmd/weir/internal/command"
	"weir/cmd/weir/internal/output"
)

// A consoleLink is a link to the console that logs in once, one line of `weir console --json`.
type consoleLink struct {
	URL   string    `json:"url"`
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
}

func newConsole() *cobra.Command {
	var flags ask.Flags
	var form command.Output
	c := &cobra.Command{
		Use:   "console [flags]",
		Short: "Print a link to the console that logs you in",
		Long: `Console asks the enforcer on this machine, over its socket, for a link to its pages in a browser. The link logs you in
under your user's name, with the rights of a key of the role write. It works once, and for a minute.

Who may not open the socket logs in at the console with an API key.`,
		Example: `  weir console
  xdg-open "$(weir console -o plain)"`,
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			link, err := newConsoleLink(c, &flags)
			if err != nil {
				return err
			}
			return showConsoleLink(c.OutOrStdout(), form.Form, link)
		},
	}
	flags.Add(c)
	form.Add(c, "text", "json", "plain")
	return c
}

func newConsoleLink(c *cobra.Command, flags *ask.Flags) (*consoleLink, error) {
	settings, err := flags.Live.LoadButRules()
	if err != nil {
		return nil, err
	}
	if serves, _ := settings.Enforcer.ServesConsole(); !serves {
		return nil, exit.Wrongf("this enforcer serves no console; set enforcer.listen and enforcer.console in weir.yaml")
	}
	enforcer, err := flags.Connect()
	if err != nil {
		return nil, err
	}
	defer enforcer.Close()
	var answer struct {
		Path, Name string
		Until      time.Time
	}
	if _, err := enforcer.Ask(c.Context(), http.MethodPost, "/console/once", nil, nil, &answer); err != nil {
		return nil, err
	}
	return &consoleLink{settings.Enforcer.TLS.URL(settings.Enforcer.Listen) + answer.Path, answer.Name, answer.Until}, nil
}

func showConsoleLink(w io.Writer, form string, link *consoleLink) error {
	var err error
	switch form {
	case "json":
		err = output.JSON(w).Encode(link)
	case "plain":
		_, err = fmt.Fprintln(w, link.URL)
	default:
		_, err = fmt.Fprintf(w, "This link logs you in as %s. It works once, within a minute:\n\n  %s\n", output.Printable(link.Name), link.URL)
	}
	return err
}
