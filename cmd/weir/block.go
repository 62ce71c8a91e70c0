package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func newBlock() *cobra.Command {
	o := &orderCommand{}
	c := &cobra.Command{
		Use:   "block [flags] TARGET",
		Short: "Block an address, a prefix or a user by hand",
		Long: `Block orders an enforcer to refuse a target, whatever it has done: at once there, and everywhere as soon as Kafka has
the order. A target is an address, a prefix, or a field with its value: user:alice, host:shop.example. Without an end it
lasts until someone lifts it (weir unblock).

An allow of the very same target is replaced; one of a wider or a narrower target goes on and wins, and that is told.`,
		Example: `  weir block 203.0.113.7 --for 4h --why 'scrapes the catalogue'
  weir block 2001:db8:bad::/48 --until 2030-01-01T00:00:00Z --why 'see ticket 4711'
  weir block user:alice --why 'stolen account'`,
		Args: oneTarget,
		RunE: func(c *cobra.Command, args []string) error { return o.block(c, args[0]) },
	}
	o.add(c)
	return c
}

func (o *orderCommand) block(c *cobra.Command, target string) error {
	order, err := o.order(c, time.Now())
	if err != nil {
		return err
	}
	order.Target = target
	return o.change(c, http.MethodPost, blocksPath, nil, &order, func(a *orderAnswer) string {
		return fmt.Sprintf("%s is blocked %s.\n", a.Order.target(), a.Order.untilWords())
	})
}
