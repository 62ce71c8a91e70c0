// Package limited bounds how many connections a listener has open at a time.
package limited

import (
	"net"
	"sync"
)

// Listen is a listener that has at most so many connections open at a time. Further ones wait to be accepted, which full
// is told of; it must not wait.
func Listen(l net.Listener, connections int, full func()) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, connections), ended: make(chan struct{}), full: full}
}

type limited struct {
	net.Listener
	slots chan struct{}
	ended chan struct{}
	end   sync.Once
	full  func() // told when one has to wait
}

// Accept waits for a slot, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	default:
		l.full()
		select {
		case l.slots <- struct{}{}:
		case <-l.ended:
			return nil, net.ErrClosed
		}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: conn, slots: l.slots}, nil
}

// Close ends the listener, its connections not.
func (l *limited) Close() error {
	l.end.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	slots chan struct{}
	end   sync.Once
}

// Close gives the slot back.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.end.Do(func() { <-c.slots })
	return err
}
