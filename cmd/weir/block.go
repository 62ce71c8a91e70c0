package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/pkg/blocklist"
)

func newBlock() *cobra.Command {
	o := &orderCommand{}
	c := &cobra.Command{
		Use:   "block [flags] TARGET",
		Short: "Block an address, a prefix or a user by hand",
		Long: `Block orders an enforcer to refuse a target, whatever it has done: at once there, and everywhere as soon as Kafka has
the order. A target is an address, a prefix, or a field with its value: user:alice, host:shop.example. Without an end it
lasts until someone lifts it (weir unblock).

A block of more than a /8 (of IPv6: a /19), of loopback, of a trusted proxy or of your own address is given only when you
confirm it: it shows what that affects, and asks; --yes answers for scripts.

An allow of the very same target is replaced; one of a wider or a narrower target goes on and wins, and that is told.`,
		Example: `  weir block 203.0.113.7 --for 4h --why 'scrapes the catalogue'
  weir block 2001:db8:bad::/48 --until 2030-01-01T00:00:00Z --why 'see ticket 4711'
  weir block user:alice --why 'stolen account'`,
		Args: oneTarget,
		RunE: func(c *cobra.Command, args []string) error { return o.block(c, args[0]) },
	}
	o.add(c)
	o.addYes(c)
	return c
}

func (o *orderCommand) block(c *cobra.Command, target string) error {
	order, err := o.order(c, time.Now())
	if err != nil {
		return err
	}
	order.Target = target
	if own := sessionOf(os.Getenv("SSH_CONNECTION")); holds(target, own) {
		if err := o.confirm(c, []string{fmt.Sprintf("the address that you are logged in from, %s", own)}); err != nil {
			return err
		}
	}
	return o.change(c, http.MethodPost, blocksPath, nil, &order, (*orderAnswer).blocked)
}

// blocked says what was blocked, and why checks let it through where they do.
func (a *orderAnswer) blocked() string {
	if a.Passes != "" {
		return fmt.Sprintf("%s is on the list %s, but checks let it through: %s.\n", a.Order.target(), a.Order.untilWords(), printable(a.Passes))
	}
	return fmt.Sprintf("%s is blocked %s.\n", a.Order.target(), a.Order.untilWords())
}

// sessionOf is the address that a person is logged in from by ssh, which an enforcer asked over its socket does not know.
func sessionOf(connection string) netip.Addr {
	text, _, _ := strings.Cut(connection, " ")
	address, _ := netip.ParseAddr(text) // none otherwise
	return address.Unmap().WithZone("")
}

// holds says whether a target is a prefix with an address in it.
func holds(target string, address netip.Addr) bool {
	scope, value, err := blocklist.ParseTarget(target)
	if err != nil || !address.IsValid() {
		return false
	}
	order := blocklist.Order{Scope: scope, Value: value}
	return order.Prefix().Contains(address)
}
