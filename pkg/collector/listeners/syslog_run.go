package listeners

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"weir/internal/limited"
	"weir/internal/sleep"
	"weir/pkg/collector/pipeline"
	"weir/pkg/request"
)

// Run listens until the context is done.
func (s *syslogSource) Run(ctx context.Context) error {
	address, read, err := s.listen(ctx)
	if err != nil {
		return fmt.Errorf("listening for syslog: %w", err)
	}

	name := s.scheme + "://" + address
	stream := incarnation(s.in, name, false)
	defer stream.Close()
	s.in.Logger().Info("takes syslog", "address", name)

	// work outlives ctx, so that lines that were taken before the end can be counted.
	work, abandon := lingering(ctx)
	defer abandon()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		if failed := pipeline.Contained(func() error { return read(reading) }); failed != nil && reading.Err() == nil {
			err = fmt.Errorf("taking syslog: %w", failed)
			stop()
		}
	})

	failed := pipeline.Contained(func() error { return s.feed().run(reading, work, stream) })
	stop()
	running.Wait()
	return errors.Join(err, failed)
}

var cee = []byte("@cee:")

// cutSyslog returns a record without the syslog header and the line ends.
func cutSyslog(record []byte) []byte {
	record = bytes.TrimRight(record, "\r\n\x00")
	_, message := request.CutSyslog(request.Text(record))
	return bytes.TrimPrefix(record[len(record)-len(message):], cee)
}

// messageOf returns a record without the syslog header and the line ends. Where only that makes a request of it, the
// header includes a tag without a colon, or is a time without a host.
func messageOf(record []byte, to *pipeline.Stream) []byte {
	message := cutSyslog(record)
	trimmed := bytes.TrimRight(record, "\r\n\x00")
	rest, ok := request.CutBareTag(request.Text(trimmed), request.Text(message))
	if !ok {
		rest, ok = request.CutTime(request.Text(trimmed))
	}
	if !ok || to.Reads(message) {
		return message
	}

	if rest := trimmed[len(trimmed)-len(rest):]; to.Reads(rest) {
		return rest
	}
	return message
}

// feed is what brings the records of the inbox to the stream.
func (s *syslogSource) feed() feed {
	return feed{in: s.in, inbox: s.inbox, what: "syslog", message: messageOf, sample: cutSyslog}
}

// inSources is the setting of the address.
const inSources = "syslog of this source in collector.sources"

// listen opens the socket; the reader closes it.
func (s *syslogSource) listen(ctx context.Context) (address string, read reader, err error) {
	switch s.scheme {
	case "udp":
		return s.listenUDP(ctx)
	case "unix":
		return s.listenUnix(ctx)
	}

	var l net.Listener
	if s.scheme == "unixstream" {
		l, err = listenUnixStream(ctx, s.address)
	} else {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	}
	if err != nil {
		return "", nil, limited.InUse(err, inSources)
	}
	return l.Addr().String(), func(ctx context.Context) error { return s.accept(ctx, l) }, nil
}

// accept takes connections until the context is done; all of them have ended when it returns.
func (s *syslogSource) accept(ctx context.Context, l net.Listener) error {
	bounds := limited.Bounds{Connections: s.limits.connections, PerAddress: s.limits.connections / 2}
	l = limited.Listen(l, bounds, func(why error) { s.in.Incident("connections", why) })
	defer closeWith(ctx, l)()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // too many files are open, or the client is gone
			s.in.Incident("accept", err)
			sleep.For(ctx, 100*time.Millisecond)
			continue
		}

		if s.scheme != "tls" {
			limited.Busy(conn) // it keeps its place: lines that it has sent would be lost with it
		}
		running.Go(func() {
			s.in.Isolated("the connection of "+conn.RemoteAddr().String(), func() { s.converse(ctx, conn) })
		})
	}
}
