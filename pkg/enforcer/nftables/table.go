package nftables

import (
	"errors"
	"fmt"
	"os"

	"weir/pkg/enforcer/cidr"
)

// A table is our table in the kernel, or a script of changes to it.
type table interface {
	// untouched reports that no other program has changed it since the last read or commit.
	untouched() (bool, error)
	// touched signals that another program may have changed it.
	touched() <-chan struct{}
	// read returns the sets' contents, sorted. A table that is not intact must be created again.
	read() (blocks []cidr.Block, intact bool, err error)
	commit(plan) error
	remove() error
	close()
}

// The names of our objects.
const (
	tableName = "weir"
	set4      = "blocked4"
	set6      = "blocked6"
)

// priority is before filters (0) and after the features that they rely on, connection tracking and destination NAT.
const priority = -10

// chains are those of the table, each on the hook of its name.
var chains = []string{"input", "forward"}

func (a *Agent) open() (table, error) {
	if a.c.DryRun != nil {
		return &script{to: a.c.DryRun}, nil
	}
	t, err := openKernel()
	if err != nil {
		return nil, explained(err)
	}
	return t, nil
}

var errNotPermitted = errors.New("not permitted to change the firewall: give the enforcer the capability CAP_NET_ADMIN " +
	"(AmbientCapabilities=CAP_NET_ADMIN in its systemd unit, --cap-add NET_ADMIN of its container), or take enforcer.nftables out of its configuration")

// explained adds the remedy to an error, if there is a known one.
func explained(err error) error {
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	return fmt.Errorf("nftables: %w", errNotPermitted)
}

func notPermitted(err error) bool { return errors.Is(err, errNotPermitted) }
