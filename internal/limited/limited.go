// Package limited bounds the connections of a listener, altogether and of one address, so that no host can hold them
// all, and how long an answer may take to be taken.
//
// A connection is new until its first request, then busy while one is answered and idle between two. When there are as
// many as may be, a further one takes the place of one that waits: of the oldest new one, else of the one that has been
// idle longest, else of an idle one that has shown who it is. So a sender with a key gets in, whoever holds the others.
// Only while all of them are busy does a further one wait.
//
// Of one address (IPv6: a /64) those that have not shown who they are are bounded too: a further one takes the place
// of one that waits of the same address, or is closed when there is none. Loopback has no such bound: what comes from
// there is this machine, or a proxy on it.
//
// The bounds are those of a process that may open enoughFiles. One that may open fewer has proportionally fewer
// connections, so that files, and the connections of others, stay possible.
//
// A Listener may be used by several goroutines at once; it starts none.
package limited

import (
	"container/list"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// Bounds are how many connections may be open.
type Bounds struct {
	Connections int
	PerAddress  int // that have not shown who they are; 0 is as many as there may be
}

// The kinds of connections that wait, those first that are closed first.
const (
	isNew = iota
	isIdle
	isKnown // idle, and it has shown who it is
	kinds
	isBusy = kinds
)

// A Listener is one with bounds.
type Listener struct {
	net.Listener
	bounds Bounds
	full   func(error)

	mu      sync.Mutex
	open    int
	freed   chan struct{} // one that was open is not any more
	waiting [kinds]list.List
	of      map[netip.Addr]*address
	ended   chan struct{}
	end     sync.Once
}

// An address has connections that have not shown who they are.
type address struct {
	open    int
	waiting [kinds]list.List
}

// A conn is an open connection. All but its connection is under the listener's lock.
type conn struct {
	net.Conn
	listener *Listener
	from     netip.Addr // not valid: has no bound of its own
	kind     int
	known    bool
	closed   bool
	places   [2]*list.Element // in the listener's and the address's list of its kind; nil while it is busy
}

// enoughFiles is more than the bounds of all listeners that a process usually has together.
const enoughFiles = 16384

// fewestConnections is what a listener has however few files there are.
const fewestConnections = 10

// within makes bounds those of a process that may have so many files open.
func (b Bounds) within(files uint64) Bounds {
	if b.PerAddress == 0 {
		b.PerAddress = b.Connections
	}
	if files < enoughFiles {
		b.Connections = min(b.Connections, max(fewestConnections, b.Connections*int(files)/enoughFiles))
		b.PerAddress = min(b.PerAddress, max(fewestConnections/2, b.PerAddress*int(files)/enoughFiles))
	}
	return b
}

// maxFiles is how many files the process may have open.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return enoughFiles
	}
	return limit.Cur
}

// Listen bounds a listener's connections. Full is given what has to make room or to wait; it must not wait.
func Listen(l net.Listener, b Bounds, full func(error)) *Listener {
	b = b.within(maxFiles())
	return &Listener{Listener: l, bounds: b, full: full, freed: make(chan struct{}, 1), of: map[netip.Addr]*address{}, ended: make(chan struct{})}
}

// Accept waits for a connection, and makes room for it.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		if !l.room() {
			return nil, net.ErrClosed
		}
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.add(accepted); c != nil {
			return c, nil
		}

		_ = accepted.Close() // nothing was sent yet
	}
}

// room waits while all connections that may be open are busy; false is that the listener has ended.
func (l *Listener) room() bool {
	for told := false; ; told = true {
		l.mu.Lock()
		free := l.open < l.bounds.Connections || l.oldest(&l.waiting) != nil
		l.mu.Unlock()
		if free {
			return true
		}
		if !told {
			l.full(fmt.Errorf("%d connections are open and busy, others wait", l.bounds.Connections))
		}

		select {
		case <-l.freed:
		case <-l.ended:
			return false
		}
	}
}

// add keeps a connection, in the place of another one where it has to be; nil is that its address has too many.
func (l *Listener) add(accepted net.Conn) *conn {
	c := &conn{Conn: accepted, listener: l, from: sourceOf(accepted.RemoteAddr()), kind: isBusy}
	var why error
	defer func() {
		if why != nil {
			l.full(why)
		}
	}()

	l.mu.Lock()
	defer l.mu.Unlock()
	if c.from.IsValid() {
		of := l.of[c.from]
		if of == nil {
			of = &address{}
			l.of[c.from] = of
		}

		if of.open >= l.bounds.PerAddress {
			why = fmt.Errorf("%d connections of %s are open, which is all that one address may have", l.bounds.PerAddress, c.from)
			if !l.drop(&of.waiting) {
				return nil
			}
			l.of[c.from] = of // it is forgotten with its last one
		}

		of.open++
	}

	if l.open >= l.bounds.Connections {
		why = fmt.Errorf("%d connections are open, a further one takes the place of one that waits", l.bounds.Connections)
		l.drop(&l.waiting)
	}

	l.open++
	c.become(isNew)
	return c
}

// oldest is the connection that is closed first; nil when none waits.
func (l *Listener) oldest(waiting *[kinds]list.List) *conn {
	for kind := range waiting {
		if first := waiting[kind].Front(); first != nil {
			return first.Value.(*conn)
		}
	}
	return nil
}

// drop closes the connection that is closed first, and says whether there was one.
func (l *Listener) drop(waiting *[kinds]list.List) bool {
	c := l.oldest(waiting)
	if c == nil {
		return false
	}
	c.forget()
	_ = c.Conn.Close() // it was open
	return true
}

// become makes the connection one of another kind. The caller holds the lock.
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
	if of != nil && !c.known {
		c.places[1] = of.waiting[kind].PushBack(c)
	}

	select {
	case l.freed <- struct{}{}: // its place can be taken
	default:
	}
}

// leave takes the connection out of those that its address has.
func (c *conn) leave() {
	of := c.listener.of[c.from]
	if of == nil {
		return
	}
	if of.open--; of.open == 0 {
		delete(c.listener.of, c.from)
	}
}

// forget gives its place back. The caller holds the lock.
func (c *conn) forget() {
	if c.closed {
		return
	}
	c.closed = true
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

// Close gives the place back.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.forget()
	return err
}

// change has a connection become busy or idle.
func (c *conn) change(busy bool) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	switch {
	case busy:
		c.become(isBusy)
	case c.known:
		c.become(isKnown)
	default:
		c.become(isIdle)
	}
}

// show notes that the connection has shown who it is.
func (c *conn) show() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.known || c.closed {
		return
	}
	kind := c.kind
	c.become(isBusy)
	c.leave()
	c.known = true
	if kind != isBusy {
		c.become(isKnown)
	}
}

// Close ends the listener, its connections not.
func (l *Listener) Close() error {
	l.end.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// sourceOf is what has a bound of its own: an address, of IPv6 its /64; none for loopback and unix sockets.
func sourceOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}

	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.IsLoopback() {
		return netip.Addr{}
	}

	if ip.Is6() {
		if prefix, err := ip.Prefix(64); err == nil {
			return prefix.Addr()
		}
	}

	return ip
}

// Busy marks a connection that Listen has accepted as one whose place nobody may take any more.
func Busy(c net.Conn) {
	if c, ok := inner(c); ok {
		c.change(true)
	}
}

// Idle marks a connection that Listen has accepted as one that has said nothing for a while: when there is no room, its
// place is taken.
func Idle(c net.Conn) {
	if c, ok := inner(c); ok {
		c.change(false)
	}
}

// Known marks a connection that Listen has accepted as one that has shown who it is.
func Known(c net.Conn) {
	if c, ok := inner(c); ok {
		c.show()
	}
}

// inner is the connection that Listen has accepted, below encryption.
func inner(c net.Conn) (*conn, bool) {
	if encrypted, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = encrypted.NetConn()
	}
	accepted, ok := c.(*conn)
	return accepted, ok
}
