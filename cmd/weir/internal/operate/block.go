package operate

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/cmd/weir/internal/output"
	"weir/pkg/blocklist"
)

func newBlock() *cobra.Command {
	o := &orderCommand{}
	f := &fileCommand{orderCommand: o}
	c := &cobra.Command{
		Use:   "block [flags] TARGET",
		Short: "Block an address, a prefix or a user by hand",
		Long: `Block makes a manual entry that refuses a target. It is active at once at the enforcer that is asked, and everywhere as
soon as the topics have it. A target is an address, a prefix, or a field with its value: user:alice, host:shop.example.
Without an end it lasts until someone lifts it (weir unblock).

A block of more than a /8 (of IPv6: a /19), of loopback, of a trusted proxy or of your own address needs a confirmation:
block lists what it affects, and asks; --yes answers in scripts.

The block replaces an allow of the same target. An allow of a wider or narrower target stays and takes precedence; block
reports it.

With --file the targets are those of a file, up to 10,000, one a line. Block then shows what they affect, and asks.
--end takes the blocks of a file back; weir unblock does it for one target.`,
		Example: `  weir block 203.0.113.7 --for 4h --why 'scrapes the catalogue'
  weir block 2001:db8:bad::/48 --until 2030-01-01T00:00:00Z --why 'ticket 4711'
  weir block user:alice --why 'stolen account'
  weir block --file addresses.txt --for 24h --why 'a botnet'`,
		Args: f.oneTargetOrFile,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.path != "" && f.end:
				return f.endAll(c, blocksPath)
			case f.path != "":
				return f.blockAll(c)
			case f.end:
				return exit.Wrongf("--end is for a --file; for one target write: weir unblock %s", output.Printable(args[0]))
			}
			return o.block(c, args[0])
		},
	}
	o.add(c)
	o.addYes(c)
	f.add(c, "blocks of the file")
	return c
}

// blockAll blocks the targets of the file.
func (f *fileCommand) blockAll(c *cobra.Command) error {
	order, err := f.order(c, time.Now())
	if err != nil {
		return err
	}
	return f.run(c, blocksPath, order)
}

func (o *orderCommand) block(c *cobra.Command, target string) error {
	order, err := o.order(c, time.Now())
	if err != nil {
		return err
	}
	order.Target = target
	if own := sessionOf(os.Getenv("SSH_CONNECTION")); contains(target, own) {
		if err := o.confirm(c, []string{fmt.Sprintf("the address that you are logged in from, %s", own)}); err != nil {
			return err
		}
	}
	return o.change(c, http.MethodPost, blocksPath, nil, &order, (*orderAnswer).blocked)
}

// blocked describes the block, and why checks let the target through if they do.
func (a *orderAnswer) blocked() string {
	if a.Passes != "" {
		return fmt.Sprintf("%s is on the list %s, but checks let it through: %s.\n", a.Order.Target(), a.Order.UntilIn(a.times), output.Printable(a.Passes))
	}
	return fmt.Sprintf("%s is blocked %s.\n", a.Order.Target(), a.Order.UntilIn(a.times))
}

// sessionOf returns the address of the user's ssh session. An enforcer that is asked over its socket does not know it.
func sessionOf(connection string) netip.Addr {
	text, _, _ := strings.Cut(connection, " ")
	address, _ := netip.ParseAddr(text) // the zero address without a session
	return address.Unmap().WithZone("")
}

// contains reports whether a target is a prefix that contains an address.
func contains(target string, address netip.Addr) bool {
	scope, value, err := blocklist.ParseTarget(target)
	if err != nil || !address.IsValid() {
		return false
	}
	order := blocklist.Order{Scope: scope, Value: value}
	return order.Prefix().Contains(address)
}
