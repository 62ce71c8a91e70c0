package nftables

import (
	"errors"
	"fmt"
	"os"

	"weir/pkg/enforcer/cidr"
)

// A table is ours in the kernel, or what would be done to it.
type table interface {
	// untouched says that nobody has changed it since it was last read or committed to.
	untouched() (bool, error)
	// touched tells that somebody may have.
	touched() <-chan struct{}
	// read gives what is in the sets, sorted. Where it is not intact it has to be made anew.
	read() (blocks []cidr.Block, intact bool, err error)
	commit(plan) error
	remove() error
	close()
}

// The names of what is ours.
const (
	tableName = "weir"
	set4      = "blocked4"
	set6      = "blocked6"
)

// priority is before filters (0) and after what they build on, the tracking of connections and the change of destinations.
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

// explained says what to do about an error, where that is known.
func explained(err error) error {
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	return fmt.Errorf("nftables: %w", errNotPermitted)
}

func notPermitted(err error) bool { return errors.Is(err, errNotPermitted) }
