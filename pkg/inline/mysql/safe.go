package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// The driver believes the server: a short packet is a panic, and a packet of 9 bytes that claims a thousand million
// columns ends the process. So what it reads is checked where it is not encrypted or compressed, and its panics are errors.

// A checked connection fails at a packet that is too short, or claims more than 65,535 columns. Rows do not look so: their
// first value is short. With TLS or compression it sees no packets.
type checked struct {
	net.Conn
	commanded bool   // the log-in, in which other packets look so, is over
	opaque    bool   // encrypted or compressed
	head      []byte // of a packet, up to its first byte
	left      int    // of its other bytes
}

func (c *checked) Write(p []byte) (int, error) {
	if len(p) > 3 {
		c.commanded = c.commanded || p[3] == 0
		c.opaque = c.opaque || !c.commanded && len(p) == 36 // only a request for TLS is so short
	}
	return c.Conn.Write(p)
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.opaque {
		return n, err
	}
	for rest := p[:n]; len(rest) > 0; {
		if c.left > 0 {
			skip := min(c.left, len(rest))
			c.left, rest = c.left-skip, rest[skip:]
			continue
		}
		c.head, rest = append(c.head, rest[0]), rest[1:]
		length := int(c.head[0])
		if len(c.head) >= 3 {
			length |= int(c.head[1])<<8 | int(c.head[2])<<16
		}
		if len(c.head) < 4 || len(c.head) == 4 && length > 0 {
			continue
		}
		if length > 0 && c.lies(c.head[4], length) {
			return 0, errAnswer
		}
		c.head, c.left = c.head[:0], max(0, length-1)
	}
	return n, err
}

// mostLogin bounds packets of the log-in. One has an RSA key: with a key of a MiB the password takes hours.
const mostLogin = 16 << 10

// lies reports whether a packet would make the driver panic, or take much memory or time.
func (c *checked) lies(first byte, length int) bool {
	if !c.commanded && length > mostLogin {
		return true
	}
	switch first {
	case 0x00:
		return !c.commanded && length < 7 // a success
	case 0xff:
		return length < 9 // an error
	case 0xfd:
		return c.commanded // three bytes of columns
	case 0xfe:
		return c.commanded && length > 8 // eight bytes of columns
	}
	return false
}

func (c *checked) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(syscall.Conn).SyscallConn()
}

// caught makes an error of a panic.
func caught(err *error, then func()) {
	if why := recover(); why != nil {
		then()
		*err = fmt.Errorf("%w: %v", errAnswer, why)
	}
}

// A safe connection is not used again after a panic, nor once its server is read-only or has lost its cluster: after a
// failover that is a replica, and the next connection may reach the new primary.
type safe struct {
	conn
	broken bool
}

// conn is what the driver's connections can.
type conn interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

func (s *safe) breaks() {
	s.broken = true
	_ = s.conn.Close() // else closing its rows would wait for more
}

// noted notes that the server cannot serve any more.
func (s *safe) noted(err error) error {
	switch codeOf(err) {
	case readOnlyServer, readOnlyTransaction, readOnlyMode, notReady:
		s.broken = true
	}
	return err
}

func (s *safe) IsValid() bool { return !s.broken && s.conn.IsValid() }

func (s *safe) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (_ driver.Result, err error) {
	defer caught(&err, s.breaks)
	result, err := s.conn.ExecContext(ctx, text, args)
	return result, s.noted(err)
}

func (s *safe) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (_ driver.Rows, err error) {
	defer caught(&err, s.breaks)
	rows, err := s.conn.QueryContext(ctx, text, args)
	if err != nil {
		return nil, s.noted(err)
	}
	several, ok := rows.(driver.RowsNextResultSet)
	if !ok {
		return nil, errors.Join(errAnswer, rows.Close())
	}
	return &safeRows{several, s}, nil
}

type safeRows struct {
	driver.RowsNextResultSet
	of *safe
}

func (r *safeRows) Next(values []driver.Value) (err error) {
	defer caught(&err, r.of.breaks)
	return r.RowsNextResultSet.Next(values)
}

func (r *safeRows) NextResultSet() (err error) {
	defer caught(&err, r.of.breaks)
	return r.of.noted(r.RowsNextResultSet.NextResultSet())
}

func (r *safeRows) Close() (err error) {
	defer caught(&err, r.of.breaks)
	return r.RowsNextResultSet.Close()
}
