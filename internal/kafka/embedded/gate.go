package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxFrame is the longest request that the gate accepts.
const maxFrame = 16 << 20

// A gate lets clients of other processes in, and passes on only frames that kfake survives.
type gate struct {
	listener net.Listener
	pairs    *pairs
	logger   *slog.Logger

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	closed  bool
	running sync.WaitGroup
}

func openGate(where string, p *pairs, logger *slog.Logger) (*gate, error) {
	listener, err := listen(where)
	if err != nil {
		return nil, err
	}
	g := &gate{listener: listener, pairs: p, logger: logger, open: map[net.Conn]struct{}{}}
	g.running.Go(g.accept)
	return g, nil
}

func listen(where string) (net.Listener, error) {
	if strings.Contains(where, "/") {
		os.Remove(where) // left by an earlier process; the folder's lock shows that it has ended
		listener, err := net.Listen("unix", where)
		if err != nil {
			return nil, fmt.Errorf("listening for the embedded broker: %w", err)
		}
		return listener, os.Chmod(where, 0o600)
	}

	host, _, err := net.SplitHostPort(where)
	if err != nil {
		return nil, fmt.Errorf("the embedded broker's address %q: %w", where, err)
	}

	// The broker knows no login.
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("the embedded broker listens on loopback addresses only, not on %s", where)
	}

	listener, err := net.Listen("tcp", where)
	if err != nil {
		return nil, fmt.Errorf("listening for the embedded broker: %w", err)
	}
	return listener, nil
}

// address returns the address that the broker announces to clients: a socket's path would mean nothing to them.
func (g *gate) address() net.Addr {
	if g.listener.Addr().Network() == "unix" {
		return g.pairs.address
	}
	return g.listener.Addr()
}

func (g *gate) accept() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return
		}
		if g.remember(conn) {
			g.running.Go(func() { g.serve(conn) })
		}
	}
}

func (g *gate) remember(conn net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		conn.Close()
		return false
	}
	g.open[conn] = struct{}{}
	return true
}

// serve passes checked requests on, and answers back.
func (g *gate) serve(conn net.Conn) {
	defer g.forget(conn)
	broker, err := g.pairs.dial(context.Background())
	if err != nil {
		return
	}
	defer broker.Close()
	g.running.Go(func() {
		defer conn.Close()
		_, _ = io.Copy(conn, broker) // each end closes the connection when it is done
	})

	if err := pass(broker, conn); errors.Is(err, errFrame) {
		g.logger.Warn("embedded broker: a client was cut off", "client", conn.RemoteAddr().String(), "error", err)
	}
}

func (g *gate) forget(conn net.Conn) {
	conn.Close()
	g.mu.Lock()
	delete(g.open, conn)
	g.mu.Unlock()
}

var errFrame = errors.New("not a request of Kafka's protocol")

// pass copies complete requests until one is invalid.
func pass(to io.Writer, from io.Reader) error {
	var head [12]byte // size, API key, version, correlation
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return err
		}

		// kfake does not survive what is refused here, and it runs in this process.
		size := binary.BigEndian.Uint32(head[:])
		key := int16(binary.BigEndian.Uint16(head[4:]))
		if size < 10 || size > maxFrame {
			return fmt.Errorf("%w: %d bytes", errFrame, size)
		}
		if kmsg.RequestForKey(key) == nil {
			return fmt.Errorf("%w: API key %d", errFrame, key)
		}
		if _, err := to.Write(head[:]); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, int64(size)-8); err != nil {
			return err
		}
	}
}

func (g *gate) close() {
	g.listener.Close()
	g.mu.Lock()
	g.closed = true
	for conn := range g.open {
		conn.Close()
	}
	g.mu.Unlock()
	g.running.Wait()
}
