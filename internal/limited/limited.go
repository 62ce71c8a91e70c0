// Package limited bounds the connections of a listener, in total and per address, so that no host can take them all. It
// also bounds how long a client may take to read an answer.
//
// A connection is new until its first request, then busy during a request and idle between two. When the limit is
// reached, a further connection replaces a waiting one: the oldest new one, else the one that has been idle longest,
// else an idle one that has identified its client. So a sender with a key always gets in. A further connection has to
// wait only while all of them are busy.
//
// Per address (IPv6: a /64) there is also a limit for connections that have not identified their client. A further one
// replaces a waiting one of the same address, or is closed when there is none. Loopback has no such limit: its clients
// are this machine, or a proxy on it.
//
// The headers of requests that have not arrived completely share maxHeads, over all connections of a listener. Many short
// fields take much more memory than their bytes, so each field has a weight too. Above the limit, the connection whose
// header began first is closed. A header of up to freeHead bytes does not count. TLS handshakes count in the same way.
//
// The limits are for a process that may open enoughFiles. A process that may open fewer has proportionally fewer
// connections, so that it still has descriptors for files and other connections.
//
// A Listener may be used by several goroutines at once; it starts none.
package limited

import (
	"bytes"
	"cmp"
	"container/list"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
)

// Bounds limit the number of open connections.
type Bounds struct {
	Connections int
	PerAddress  int // without an identified client; 0 is no separate limit
}

// The kinds of waiting connections, in the order in which they are closed.
const (
	isNew = iota
	isIdle
	isKnown // idle, and its client is identified
	kinds
	isBusy = kinds
)

// A Listener is a net.Listener with bounds.
type Listener struct {
	net.Listener
	bounds Bounds
	full   func(error)

	mu      sync.Mutex
	open    int
	heads   int           // weight of the headers in large
	large   list.List     // connections with the beginning of a large header, the oldest first
	freed   chan struct{} // an open connection was closed
	waiting [kinds]list.List
	of      map[netip.Addr]*address
	ended   chan struct{}
	end     sync.Once
}

// An address has connections that have not identified their client.
type address struct {
	open    int
	waiting [kinds]list.List
}

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
	head, weight int // bytes of that header, and about what it takes in memory; only the goroutine that reads uses them
}

const (
	freeHead = 2 << 10
	maxHeads = 32 << 20

	fieldWeight     = 64 // what a field takes in memory besides its bytes
	encryptedWeight = 8  // of each byte, because its fields cannot be counted
)

// Read reads, and weighs large headers.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n <= 0 || !c.inHead.Load() {
		return n, err
	}
	c.head += n
	if c.encrypted {
		c.weight += encryptedWeight * n
	} else {
		c.weight += n + fieldWeight*bytes.Count(b[:n], []byte{'\n'})
	}
	if c.head > freeHead {
		c.listener.count(c, c.weight)
	}
	return n, err
}

// count notes the weight of a connection's large header, and makes room for it.
func (l *Listener) count(c *conn, weight int) {
	l.mu.Lock()
	if c.closed {
		l.mu.Unlock()
		return
	}
	if c.large == nil {
		c.large = l.large.PushBack(c)
	}
	l.heads += weight - c.counted
	c.counted = weight
	over := l.heads > maxHeads
	for l.heads > maxHeads {
		first := l.large.Front().Value.(*conn)
		first.forget()
		_ = first.Conn.Close() // it was open
	}
	l.mu.Unlock()

	if over {
		l.full(fmt.Errorf("headers or handshakes that have not arrived completely take %d MiB, the oldest one is closed", maxHeads>>20))
	}
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

// enoughFiles is more than all listeners of a process usually need together.
const enoughFiles = 16384

// fewestConnections is the minimum of a listener, however few files there are.
const fewestConnections = 10

// within scales bounds for a process that may have that many files open.
func (b Bounds) within(files uint64) Bounds {
	b.PerAddress = cmp.Or(b.PerAddress, b.Connections)
	if files < enoughFiles {
		b.Connections = min(b.Connections, max(fewestConnections, b.Connections*int(files)/enoughFiles))
		b.PerAddress = min(b.PerAddress, max(fewestConnections/2, b.PerAddress*int(files)/enoughFiles))
	}
	return b
}

// maxFiles returns how many files the process may have open.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return enoughFiles
	}
	return limit.Cur
}

// Listen bounds a listener's connections. It calls full with the reason when a connection has to make room or to wait;
// full must not wait.
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

// room waits while all possible connections are busy; it returns false when the listener has ended.
func (l *Listener) room() bool {
	for reported := false; ; reported = true {
		l.mu.Lock()
		free := l.open < l.bounds.Connections || l.oldest(&l.waiting) != nil
		l.mu.Unlock()
		if free {
			return true
		}
		if !reported {
			l.full(fmt.Errorf("%d connections are open and busy, others wait", l.bounds.Connections))
		}

		select {
		case <-l.freed:
		case <-l.ended:
			return false
		}
	}
}

// add keeps a connection, if necessary in the place of another one. It returns nil when the address has too many.
func (l *Listener) add(accepted net.Conn) *conn {
	// Busy until it is complete: it must not be the one that makes room for itself.
	c := &conn{Conn: accepted, listener: l, from: Source(accepted.RemoteAddr()), kind: isBusy}
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
			why = fmt.Errorf("%d connections of %s are open, the limit for one address", l.bounds.PerAddress, c.from)
			// An address makes room with its own connections, so one client cannot push others out.
			if !l.drop(&of.waiting) {
				return nil
			}
			l.of[c.from] = of // it is removed with its last one
		}

		of.open++
	}

	if l.open >= l.bounds.Connections {
		why = fmt.Errorf("%d connections are open, a further one replaces one that waits", l.bounds.Connections)
		l.drop(&l.waiting)
	}

	l.open++
	c.become(isNew)
	return c
}

// oldest returns the connection to close first, or nil when none waits.
func (l *Listener) oldest(waiting *[kinds]list.List) *conn {
	for kind := range waiting {
		if first := waiting[kind].Front(); first != nil {
			return first.Value.(*conn)
		}
	}
	return nil
}

// drop closes the connection to close first, and returns whether there was one.
func (l *Listener) drop(waiting *[kinds]list.List) bool {
	c := l.oldest(waiting)
	if c == nil {
		return false
	}
	c.forget()
	_ = c.Conn.Close() // it was open
	return true
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
	// Known connections do not count for their address, and so do not make room in it.
	if of != nil && !c.known {
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
	c.head, c.weight = 0, 0
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
	if kind != isBusy {
		c.become(isKnown)
	}
}

// Close ends the listener, but not its connections.
func (l *Listener) Close() error {
	l.end.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// Source returns the unit of the limit per address: an address, or the /64 of an IPv6 address; none for loopback and
// unix sockets.
func Source(a net.Addr) netip.Addr {
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

// Shakes marks that a TLS handshake begins or ends on a connection of Listen without HTTP. What a client sends in it
// counts as a request's header does: before a certificate is checked, it may have 256 KiB.
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
