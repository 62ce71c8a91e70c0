package kafkatest

import (
	"fmt"
	"net/netip"
	"syscall"
)

// A port is one of a broker. A socket is bound to it that does not listen: so it stays the broker's while that is stopped,
// and no connection gets it as its near end. Brokers set SO_REUSEADDR and can listen on it.
type port struct{ number, socket int }

func reservePort() (p port, err error) {
	syscall.ForkLock.RLock()
	p.socket, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(p.socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return p, fmt.Errorf("reserving a port: %w", err)
	}

	if p.number, err = bindPort(p.socket); err != nil {
		p.release()
		return p, fmt.Errorf("reserving a port: %w", err)
	}
	return p, nil
}

func bindPort(socket int) (int, error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: netip.MustParseAddr("127.0.0.1").As4()}); err != nil {
		return 0, err
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	return name.(*syscall.SockaddrInet4).Port, nil
}

func (p port) release() { _ = syscall.Close(p.socket) }
