// Package port reserves ports for processes that a test starts and whose configuration must name a port before they
// listen.
//
// A free port may belong to another process by the time a server listens on it, also as the near end of a connection. A
// reserved one stays the test's: a socket is bound to it that does not listen. The system does not give such a port to
// a process that asks for any port, and refuses connections to it. A server that names the port and sets SO_REUSEADDR,
// as servers do, can listen on it, and another one after it.
package port

import (
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
)

// Reserve returns the address of a port on the host, an IPv4 address, that is the test's until it ends.
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

// open makes a socket that child processes do not inherit.
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
