package daemon

import (
	"fmt"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// notifyReady reports to systemd that the process is ready, or why it is not.
func (p *Process) notifyReady(unready string) {
	switch unready {
	case "":
		p.notify(daemon.SdNotifyReady + "\nSTATUS=serving")
	case ending:
		p.notify(daemon.SdNotifyStopping)
	default:
		p.notify("STATUS=not ready: " + unready)
	}
}

// notifyReloading reports to systemd that a reload begins; notifyReloaded that it has ended.
func (p *Process) notifyReloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return
	}
	p.notify(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000))
}

func (p *Process) notifyReloaded() { p.notify(daemon.SdNotifyReady) }

// notify does nothing unless systemd started us with a socket for notifications.
func (p *Process) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		p.Logger.Warn("the state of the process could not be reported to systemd", "error", err)
	}
}
