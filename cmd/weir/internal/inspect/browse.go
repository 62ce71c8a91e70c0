package inspect

import (
	"bytes"
	"context"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/output"
	"weir/cmd/weir/internal/output/terminal"
)

// browse shows the tables of a feed on the terminal. A row is opened by its Value, a ruleKey, as weir explain shows it.
func browse(ctx context.Context, c *cobra.Command, orders []terminal.Order, from *aggregatorFlags, feed func(context.Context, chan<- terminal.Table)) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT) // they end the process, and the terminal has to be given back
	defer stop()
	t, err := terminal.Open(c.InOrStdin(), c.OutOrStdout())
	if err != nil {
		return err
	}
	defer t.Close()
	b := &terminal.Browser{Orders: orders, Colors: output.Colorful(c.OutOrStdout()), Open: func(ctx context.Context, r *terminal.Row) string {
		of, ok := r.Value.(ruleKey)
		if !ok {
			return ""
		}
		return explained(ctx, *from, of)
	}}
	return b.Run(ctx, t, feed)
}

// explained returns what weir explain shows of a key in a terminal.
func explained(ctx context.Context, from aggregatorFlags, of ruleKey) string {
	e := &explainCommand{ask: from, rule: of.rule, local: true}
	e.output.Form = "text"
	var text bytes.Buffer
	c := &cobra.Command{}
	c.SetContext(ctx)
	c.SetOut(&text)
	c.SetErr(&text)
	if err := e.run(c, of.key); err != nil && ctx.Err() == nil {
		text.WriteString("\n" + noteOf(err) + "\n")
	}
	return text.String()
}

// browses reports whether a command with a text for people shows a view.
func browses(c *cobra.Command) bool {
	return terminal.Draws(c.InOrStdin()) && terminal.Draws(c.OutOrStdout())
}

// quietly returns a command that does the same without messages.
func quietly(c *cobra.Command) *cobra.Command {
	quiet := &cobra.Command{}
	quiet.SetContext(c.Context())
	quiet.SetErr(io.Discard)
	return quiet
}
