package tables

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// MostAnswer bounds what a server sends as an answer: the drivers keep it in memory. Real ones have a few MiB.
const MostAnswer = 64 << 20

var errAnswer = errors.New("the answer of the database does not end")

// A bounded connection fails when the server sends too much after the last write.
type bounded struct {
	net.Conn
	read atomic.Int64
}

// Bound bounds the answers of a server.
func Bound(c net.Conn) net.Conn { return &bounded{Conn: c} }

func (b *bounded) Write(p []byte) (int, error) {
	b.read.Store(0)
	return b.Conn.Write(p)
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.read.Load() > MostAnswer {
		return 0, errAnswer
	}
	n, err := b.Conn.Read(p)
	b.read.Add(int64(n))
	return n, err
}

// SyscallConn is for drivers that look whether the server has closed the connection.
func (b *bounded) SyscallConn() (syscall.RawConn, error) {
	if c, ok := b.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
