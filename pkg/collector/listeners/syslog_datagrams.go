package listeners

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/limited"
	"weir/internal/sleep"
	"weir/pkg/collector/pipeline"
)

const (
	socketBytes = 8 << 20 // asked for as the kernel's receive buffer; it may allow less
	dialUnixFor = time.Second
)

func (s *syslogSource) listenUDP(ctx context.Context) (string, reader, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var fault error
		err := c.Control(func(fd uintptr) { fault = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1) })
		return errors.Join(err, fault)
	}}

	packets, err := config.ListenPacket(ctx, "udp", s.address)
	if err != nil {
		return "", nil, limited.InUse(err, inSources)
	}

	conn := packets.(*net.UDPConn)
	if err := conn.SetReadBuffer(socketBytes); err != nil {
		return "", nil, errors.Join(err, packets.Close())
	}
	return conn.LocalAddr().String(), func(ctx context.Context) error { return s.readUDP(ctx, conn) }, nil
}

// receive takes datagrams until the socket is closed with the context, or take returns false. A read of no bytes skips
// a datagram.
func (s *syslogSource) receive(ctx context.Context, socket io.Closer, read func(buffer []byte) (int, error), take func(message []byte) bool) error {
	defer closeWith(ctx, socket)()
	buffer := make([]byte, maxMessageBytes)
	for {
		n, err := read(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			s.in.Incident("read", err)
			sleep.For(ctx, 100*time.Millisecond)
		case n > 0 && !take(buffer[:n]):
			return nil
		}
	}
}

// readUDP puts datagrams into the inbox, a message each. It drops and counts those without room.
func (s *syslogSource) readUDP(ctx context.Context, conn *net.UDPConn) error {
	control, dropped := make([]byte, 128), uint32(0)
	read := func(buffer []byte) (int, error) {
		n, controls, _, from, err := conn.ReadMsgUDPAddrPort(buffer, control)
		if err != nil {
			return 0, err
		}
		dropped = s.countDropped(control[:controls], dropped)
		if n == 0 || s.refuses(from.Addr()) {
			return 0, nil
		}
		return n, nil
	}

	return s.receive(ctx, conn, read, func(message []byte) bool {
		if ok, _ := s.inbox.try(message, pipeline.Counted); !ok {
			s.dropped.Inc()
			s.in.Incident("queue", errors.New("datagrams are dropped, because Kafka is away or they come faster than they are counted"))
		}
		return true
	})
}

// countDropped counts the datagrams that the kernel has dropped since the last time: the kernel reports the total.
func (s *syslogSource) countDropped(control []byte, before uint32) uint32 {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return before
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4 {
			now := binary.NativeEndian.Uint32(m.Data)
			s.kernel.Add(float64(now - before))
			before = now
		}
	}
	return before
}

// listenUnix listens for datagrams.
func (s *syslogSource) listenUnix(ctx context.Context) (string, reader, error) {
	if err := removeStale(ctx, "unixgram", s.address); err != nil {
		return "", nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.address, Net: "unixgram"})
	if err != nil {
		return "", nil, err
	}
	if err := os.Chmod(s.address, 0o666); err != nil {
		return "", nil, errors.Join(err, conn.Close())
	}
	s.warnOfShortQueue(unixQueueSetting)
	return s.address, func(ctx context.Context) error { return s.readUnix(ctx, conn) }, nil
}

const (
	unixQueueSetting = "/proc/sys/net/unix/max_dgram_qlen"
	leastUnixQueue   = 512 // systemd's default
)

// warnOfShortQueue warns if the system lets few datagrams wait in the socket: senders that do not wait, such as nginx,
// lose further lines without a trace.
func (s *syslogSource) warnOfShortQueue(setting string) {
	text, err := os.ReadFile(setting)
	if err != nil {
		return // this system has no such bound
	}
	if length, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && length < leastUnixQueue {
		s.in.Logger().Warn("few datagrams may wait in this unix socket: senders that do not wait, such as nginx, lose lines without notice; let them send over UDP, or set net.unix.max_dgram_qlen=4096 and start again",
			"net.unix.max_dgram_qlen", length, "socket", s.address)
	}
}

// readUnix puts datagrams into the inbox, a message each. Without room it stops reading, and the senders wait.
func (s *syslogSource) readUnix(ctx context.Context, conn *net.UnixConn) error {
	defer os.Remove(s.address)
	complete := true
	read := func(buffer []byte) (int, error) {
		n, _, flags, _, err := conn.ReadMsgUnix(buffer, nil)
		complete = flags&unix.MSG_TRUNC == 0
		return n, err
	}

	return s.receive(ctx, conn, read, func(message []byte) bool {
		why := pipeline.Counted
		if !complete {
			message, why = message[:maxMessageBytes], pipeline.ReasonLong
		}
		return s.inbox.put(ctx, message, why) == nil
	})
}

// listenUnixStream listens for connections. Closing the listener removes the socket's file.
func listenUnixStream(ctx context.Context, path string) (net.Listener, error) {
	if err := removeStale(ctx, "unix", path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes the socket of a process that ended without removing it.
func removeStale(ctx context.Context, network, path string) error {
	if info, _ := os.Lstat(path); info == nil || info.Mode().Type() != os.ModeSocket {
		return nil // if that is wrong, listening fails
	}
	conn, err := (&net.Dialer{Timeout: dialUnixFor}).DialContext(ctx, network, path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("%s is in use by another process", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
