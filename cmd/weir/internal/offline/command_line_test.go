package offline

import (
	"testing"

	"github.com/spf13/cobra"

	"weir/cmd/weir/internal/command"
)

func TestCommandLineCanBePastedIntoAShell(t *testing.T) {
	c := newBacktest("v1")
	var got string
	c.RunE = func(c *cobra.Command, _ []string) error { got = command.Line(c); return nil }
	c.SetArgs([]string{"--limit", "10/min", "access log", "--limit", "5/10s", "--json", "--fail-if", "refused > 0.1%", "it's"})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	want := `backtest 'access log' 'it'\''s' --fail-if 'refused > 0.1%' --json --limit 10/min --limit 5/10s`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
