package limited

import (
	"bytes"
	"container/list"
	"net"
	"net/netip"
	"sync/atomic"
)

// A conn is an open connection. The listener's lock guards all fields except the connection itself.
type conn struct {
	net.Conn
	listener *Listener
	from     netip.Addr // not valid: no limit per address
	kind     int
	known    bool
	closed   bool
	places   [2]*list.Element // in the listener's and the address's list of its kind; nil while it is busy
	large    *list.Element    // in the listener's list, with the weight that is counted there
	counted  int

	inHead       atomic.Bool // what it reads belongs to a request's header
	encrypted    bool
	head, weight atomic.Int64 // bytes of that header, and about what it takes in memory
}

// Read reads, and weighs large headers.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n <= 0 || !c.inHead.Load() {
		return n, err
	}
	weight := n + fieldWeight*bytes.Count(b[:n], []byte{'\n'})
	if c.encrypted {
		weight = encryptedWeight * n
	}
	weight = int(c.weight.Add(int64(weight)))
	if c.head.Add(int64(n)) > freeHead {
		c.listener.count(c, weight)
	}
	return n, err
}

// endHead gives back what the connection's header takes. The caller holds the lock.
func (c *conn) endHead() {
	if c.large == nil {
		return
	}
	c.listener.large.Remove(c.large)
	c.listener.heads -= c.counted
	c.large, c.counted = nil, 0
}

// become changes the kind of the connection. The caller holds the lock.
func (c *conn) become(kind int) {
	l := c.listener
	of := l.of[c.from]
	if c.places[0] != nil {
		l.waiting[c.kind].Remove(c.places[0])
	}
	if c.places[1] != nil {
		of.waiting[c.kind].Remove(c.places[1])
	}

	c.kind, c.places = kind, [2]*list.Element{}
	if kind == isBusy || c.closed {
		return
	}

	c.places[0] = l.waiting[kind].PushBack(c)
	// Known connections do not count for their address, and so do not make room in it. Nor do busy ones.
	if of != nil && !c.known && kind != isStrange {
		c.places[1] = of.waiting[kind].PushBack(c)
	}

	select {
	case l.freed <- struct{}{}: // another one may take its place
	default:
	}
}

// leave removes the connection from those of its address.
func (c *conn) leave() {
	of := c.listener.of[c.from]
	if of == nil {
		return
	}
	if of.open--; of.open == 0 {
		delete(c.listener.of, c.from)
	}
}

// forget gives up its place. The caller holds the lock.
func (c *conn) forget() {
	if c.closed {
		return
	}
	c.closed = true
	c.endHead()
	c.become(isBusy)
	if !c.known {
		c.leave()
	}

	c.listener.open--
	select {
	case c.listener.freed <- struct{}{}:
	default:
	}
}

// Close gives up the place.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.forget()
	return err
}

// change makes a connection busy or idle.
func (c *conn) change(busy bool) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.endHead()
	switch {
	case busy && c.listener.bounds.Asks && !c.known:
		c.become(isStrange)
	case busy:
		c.become(isBusy)
	case c.known:
		c.become(isKnown)
	default:
		c.become(isIdle)
	}
}

// shakes notes that a handshake begins or ends. Nothing else reads the connection meanwhile.
func (c *conn) shakes(begins bool) {
	c.inHead.Store(begins)
	c.head.Store(0)
	c.weight.Store(0)
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.endHead()
}

// show notes that the connection has identified its client.
func (c *conn) show() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.known || c.closed {
		return
	}

	// The order matters: it leaves the lists of its address before it no longer belongs to them.
	kind := c.kind
	c.become(isBusy)
	c.leave()
	c.known = true
	if kind != isBusy && kind != isStrange {
		c.become(isKnown)
	}
}

// Busy marks a connection of Listen so that no other connection takes its place.
func Busy(c net.Conn) {
	if c, ok := inner(c); ok {
		c.change(true)
	}
}

// Idle marks a connection of Listen as quiet for a while: when there is no room, another one takes its place.
func Idle(c net.Conn) {
	if c, ok := inner(c); ok {
		c.change(false)
	}
}

// Shakes marks that a TLS handshake begins or ends on a connection of Listen without HTTP. Its bytes count
// as a request's header does: before a certificate is checked, it may have 256 KiB.
func Shakes(c net.Conn, begins bool) {
	if c, ok := inner(c); ok {
		c.shakes(begins)
	}
}

// Known marks a connection of Listen as one whose client is identified.
func Known(c net.Conn) {
	if c, ok := inner(c); ok {
		c.show()
	}
}

// inner returns the connection of Listen below encryption.
func inner(c net.Conn) (*conn, bool) {
	if encrypted, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = encrypted.NetConn()
	}
	accepted, ok := c.(*conn)
	return accepted, ok
}
