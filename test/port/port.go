// Package port reserves ports for processes that a test starts, whose configuration has to name one before they listen.
//
// A port that was free when it was looked for may be another's by the time that it is listened on, also as the near end of
// somebody's connection. A reserved one stays the test's: a socket is bound to it that does not listen. The system gives such a
// port to nobody who asks for any, refuses who connects to it, and lets those listen on it who name it and set SO_REUSEADDR, as
// servers do; one after the other, too.
package port

import (
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
)

// Reserve gives the address of a port on the host, an address of IPv4, that is the test's until it ends.
func Reserve(t testing.TB, host string) string {
	t.Helper()
	number, socket, err := bind(netip.MustParseAddr(host))
	if err != nil {
		t.Fatalf("reserving a port on %s: %v", host, err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	return net.JoinHostPort(host, strconv.Itoa(number))
}

func bind(host netip.Addr) (number, socket int, err error) {
	if socket, err = open(); err != nil {
		return 0, 0, err
	}
	if number, err = bound(socket, host); err != nil {
		_ = syscall.Close(socket)
	}
	return number, socket, err
}

// open makes a socket that processes started meanwhile do not get.
func open() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	return socket, err
}

func bound(socket int, host netip.Addr) (int, error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: host.As4()}); err != nil {
		return 0, err
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	return name.(*syscall.SockaddrInet4).Port, nil
}
