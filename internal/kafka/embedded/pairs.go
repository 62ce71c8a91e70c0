package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

// pairs is a listener whose connections are socket pairs: dial returns one end and accepts the other.
type pairs struct {
	address  net.Addr // announced to clients
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPairs() *pairs {
	return &pairs{address: address("embedded:9092"), accepted: make(chan net.Conn), closed: make(chan struct{})}
}

// address is a name for an address without a network.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

func (p *pairs) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs, err := newPair()
	if err != nil {
		return nil, err
	}

	select {
	case p.accepted <- theirs:
		return ours, nil
	case <-p.closed:
		err = errors.New("the embedded broker has ended")
	case <-ctx.Done():
		err = ctx.Err()
	}

	ours.Close()
	theirs.Close()
	return nil, err
}

func newPair() (net.Conn, net.Conn, error) {
	descriptors, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}

	ours, err := connOf(descriptors[0])
	if err != nil {
		return nil, nil, errors.Join(err, syscall.Close(descriptors[1]))
	}
	theirs, err := connOf(descriptors[1])
	if err != nil {
		return nil, nil, errors.Join(err, ours.Close())
	}
	return ours, theirs, nil
}

// connOf makes a connection of a descriptor, which it closes.
func connOf(descriptor int) (net.Conn, error) {
	syscall.CloseOnExec(descriptor)
	file := os.NewFile(uintptr(descriptor), "socket pair")
	defer file.Close() // the connection has a copy
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("making a socket pair: %w", err)
	}
	return conn, nil
}

func (p *pairs) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pairs) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pairs) Addr() net.Addr { return p.address }
