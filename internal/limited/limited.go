// Package limited bounds the connections of a listener, in total and per address, so that no host can take them all. It
// also bounds how long a client may take to read an answer.
//
// A connection is new until its first request, then busy during a request and idle between two. When the limit is
// reached, a further connection replaces a waiting one: the oldest new one, else the one that has been idle longest,
// else an idle one that has identified its client. A further connection has to wait only while all of them are busy.
// Where clients are asked who they are, one that has not answered does not keep its place by a request that does not
// end, such as one whose answer it does not read: it makes room before an idle one that is identified. So a sender with a
// key always gets in.
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
	"cmp"
	"container/list"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// Bounds limit the number of open connections.
type Bounds struct {
	Connections int
	PerAddress  int // without an identified client; 0 is no separate limit
	// Asks tells that clients are asked for a key or a certificate.
	Asks bool
}

// The kinds of waiting connections, in the order in which they are closed.
const (
	isNew = iota
	isIdle
	isStrange // busy, and its client is not identified although it was asked
	isKnown   // idle, and its client is identified
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

const (
	freeHead = 2 << 10
	maxHeads = 32 << 20

	fieldWeight     = 64 // what a field takes in memory besides its bytes
	encryptedWeight = 8  // of each byte, because its fields cannot be counted
)

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
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}

		c, full := l.add(accepted)
		for full && l.room() {
			c, full = l.add(accepted)
		}
		if c != nil {
			return c, nil
		}

		_ = accepted.Close() // nothing was sent yet
		if full {
			return nil, net.ErrClosed
		}
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

// add keeps a connection, if necessary in the place of another one. It returns nil when there is no room for it, and full
// when there may be later; otherwise its address has too many.
func (l *Listener) add(accepted net.Conn) (added *conn, full bool) {
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
	if l.open >= l.bounds.Connections && l.oldest(&l.waiting) == nil {
		return nil, true
	}
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
				return nil, false
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
	return c, false
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
