package inlinetest

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/pkg/inline/stored"
)

// A Relay passes connections on to a server.
type Relay struct {
	Addr string

	server string
	age    atomic.Int64 // how often Freeze was called
	mu     sync.Mutex
	open   map[int64]int // connections by the age in which they were made
}

// NewRelay starts a Relay, which ends with the test.
func NewRelay(t testing.TB, server string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &Relay{Addr: l.Addr().String(), server: server, open: map[int64]int{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(c)
		}
	}()
	return r
}

// Freeze has all present connections stay open and pass nothing any more, as when the server's machine is lost and its
// address moves to another one.
func (r *Relay) Freeze() { r.age.Add(1) }

// Open is how many connections of an age are open: 0 before the first Freeze.
func (r *Relay) Open(age int64) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[age]
}

func (r *Relay) count(age int64, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[age] += n
}

func (r *Relay) pass(client net.Conn) {
	age := r.age.Load()
	r.count(age, 1)
	defer r.count(age, -1)
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() { _, _ = io.Copy(client, server) }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if r.age.Load() == age {
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
	}
}

// LosesConnections checks that all connections of a Backend are given up once none has answered for a second. The
// Backend has a Relay, that many connections for calls, and perhaps one for its tables; pause is of the server.
func LosesConnections(t *testing.T, b stored.Backend, r *Relay, connections int, pause func() (resume func())) {
	t.Helper()
	read := func(patience time.Duration) error {
		within, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, _, err := b.Read(within, 0, nil)
		return err
	}
	resume := pause()
	var running sync.WaitGroup
	for range connections {
		running.Go(func() { _ = read(time.Minute) })
	}
	until(t, "all connections", func() bool { return r.Open(0) >= connections })
	resume()
	running.Wait()

	r.Freeze()
	for _, pause := range []time.Duration{0, 1100 * time.Millisecond} {
		time.Sleep(pause)
		if err := read(50 * time.Millisecond); err == nil {
			t.Fatal("a frozen connection has answered")
		}
	}
	until(t, "the connections are given up", func() bool { return r.Open(0) <= 1 })
	until(t, "an answer over a new one", func() bool { return read(time.Second) == nil })
}
