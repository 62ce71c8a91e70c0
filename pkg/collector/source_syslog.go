package collector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/limited"
	"weir/internal/sleep"
	"weir/internal/telemetry"
	"weir/pkg/request"
)

// A syslogSource takes lines that are sent to it as syslog: over UDP, TCP, TLS, or a unix socket (datagrams as
// /dev/log takes them, or a stream). It removes the headers of RFC 3164 and RFC 5424, and a cookie @cee:. A message
// without a header is a line. The time in a header is when the line was sent and is not used; the line has its
// request's time.
//
// Delivery is without guarantee, as syslog has no acknowledgement. A line that is sent twice counts twice. Datagrams
// are lost that the network or the kernel drops, or that find no room here (weir_queue_dropped_total counts the latter
// two). With the process, the lines are lost that it had read and Kafka had not acknowledged, and those in the
// kernel's buffers. While Kafka is away, 64 cuts and a full inbox wait. Then datagrams over UDP are dropped and
// counted, and the source reads nothing from TCP, TLS and unix sockets: some senders wait, and others, such as nginx
// at a unix socket, lose lines. At the end Kafka has 5 s to acknowledge the rest; unacknowledged lines are logged.
// Lines of one connection are counted in their order.
//
// Bounds: a message has at most 64 KiB. Of a longer one these are read, and it counts as long if they do not contain
// an address and a time. The inbox has 8 MiB. There are 1,024 connections, each with a buffer of 64 KiB, half of them
// for one address that has shown no certificate. A further connection takes the place of one that has sent nothing for
// 10 s, or waits to be accepted. A connection that sends nothing for an hour is closed. A TLS handshake has 10 s, and
// gives way to others.
//
// On an address other than loopback it needs to know who may send: from (by the address alone, which can be forged in
// a datagram), or client certificates. Without them it does not start. Any process that may write to a unix socket's
// folder may send. A connection that begins with an HTTP request line, or over TCP as TLS does, comes from a browser,
// caused by a hostile page: it is closed, and nothing of it is counted.
//
// One goroutine per connection reads, or one reads all datagrams; the stream's goroutine parses.
type syslogSource struct {
	*intake
	scheme, address string
	limits          syslogLimits
	inbox           *inbox
	dropped, kernel prometheus.Counter // dropped datagrams: here, and by the kernel; nil without UDP
}

// syslogLimits are bounds that tests make smaller.
type syslogLimits struct {
	inboxBytes, connections int
	idle, quiet, handshake  time.Duration // quiet: after so long another connection may take the place
}

var usualSyslogLimits = syslogLimits{inboxBytes: 8 << 20, connections: 1024, idle: time.Hour, quiet: 10 * time.Second, handshake: 10 * time.Second}

const maxMessageBytes = 64 << 10

func newSyslogSource(in *intake) (source, error) {
	config := in.config.Syslog
	scheme, address, _ := strings.Cut(config.Listen, "://")
	tls := config.TLS
	switch scheme {
	case "unix", "unixstream":
		return newSyslog(in, scheme, address), nil
	case "udp", "tcp":
		tls = nil
	case "tls":
		if tls == nil {
			return nil, fmt.Errorf("listening on %s: tls needs a certificate", config.Listen)
		}
	default:
		return nil, fmt.Errorf("%q is no address for syslog; write it as udp://127.0.0.1:5514, or with tcp, tls, unix or unixstream", config.Listen)
	}

	if err := guard(address, tls, config.From != nil); err != nil {
		return nil, fmt.Errorf("listening on %s: %w; list the allowed senders in from, or listen on 127.0.0.1", config.Listen, err)
	}
	return newSyslog(in, scheme, address), nil
}

func newSyslog(in *intake, scheme, address string) *syslogSource {
	s := &syslogSource{intake: in, scheme: scheme, address: address}
	s.limit(usualSyslogLimits)
	return s
}

func (s *syslogSource) limit(l syslogLimits) {
	s.limits, s.inbox = l, newInbox(l.inboxBytes)
	registry, name := s.pipeline.config.Metrics, s.config.Name
	telemetry.Queue(registry, name, float64(l.inboxBytes), s.inbox.depth)
	if s.scheme == "udp" {
		s.dropped, s.kernel = telemetry.Dropped(registry, name), telemetry.Dropped(registry, name+"-socket")
	}
}

func (s *syslogSource) status() SourceStatus { return s.intake.status("syslog") }

// A reader puts records into the inbox until the context is done.
type reader func(ctx context.Context) error

// run listens until the context is done.
func (s *syslogSource) run(ctx context.Context) error {
	address, read, err := s.listen(ctx)
	if err != nil {
		return fmt.Errorf("listening for syslog: %w", err)
	}

	stream := s.incarnation(s.scheme + "://" + address)
	defer stream.close()
	s.logger.Info("takes syslog", "address", stream.log)

	// work outlives ctx, so that lines that were taken before the end can be counted.
	work, abandon := lingering(ctx)
	defer abandon()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		if failed := contained(func() error { return read(reading) }); failed != nil && reading.Err() == nil {
			err = fmt.Errorf("taking syslog: %w", failed)
			stop()
		}
	})

	failed := contained(func() error { return s.feed(reading, work, stream) })
	stop()
	running.Wait()
	return errors.Join(err, failed)
}

// feed gives the records of the inbox to the stream until ctx is done; then it waits for Kafka to acknowledge them
// until work is done.
func (s *syslogSource) feed(ctx, work context.Context, to *stream) error {
	var err error
	for err == nil && ctx.Err() == nil {
		if taken := s.inbox.take(); len(taken.ends) > 0 {
			err = s.count(work, to, taken)
		} else {
			err = to.wait(ctx, s.inbox.more)
		}
	}

	if ctx.Err() == nil {
		return fmt.Errorf("counting syslog: %w", err)
	}
	if to.lag.Load() == 0 { // else the second context is done already
		err = s.count(work, to, s.inbox.take())
	}
	if err == nil {
		err = to.drain(work)
	}
	if err != nil {
		s.logger.Error("Kafka did not acknowledge the last lines: they may be lost", "lines not counted", to.lag.Load(), "cuts not acknowledged", len(to.flying), "why", err)
	}

	return nil
}

// count gives the taken records to the stream.
func (s *syslogSource) count(ctx context.Context, to *stream, taken records) error {
	to.lag.Store(int64(len(taken.ends)))
	learnSyslog(to, taken)
	err := taken.each(func(record []byte, why reason) (err error) {
		if why == counted || why == reasonLong && to.reads(cutSyslog(record)) {
			err = to.add(ctx, cutSyslog(record), to.position+1)
		} else {
			err = to.lost(ctx, record, why, to.position+1)
		}
		if err == nil {
			to.lag.Add(-1)
		}
		return err
	})

	to.show()
	return err
}

// reads reports whether the beginning of a message that is too long has the client and the time of the request. A
// client must not be able to make its requests too long to be counted.
func (s *stream) reads(line []byte) bool {
	return s.decoder != nil && s.decoder.Decode(request.Text(line), new(request.Request)) == nil
}

var cee = []byte("@cee:")

// cutSyslog returns a record without the syslog header and the line ends.
func cutSyslog(record []byte) []byte {
	record = bytes.TrimRight(record, "\r\n\x00")
	_, message := request.CutSyslog(request.Text(record))
	return bytes.TrimPrefix(record[len(record)-len(message):], cee)
}

// learnSyslog finds out the form from the taken records, where it is not known.
func learnSyslog(to *stream, taken records) {
	if to.learned {
		return
	}
	var sample []string
	_ = taken.each(func(record []byte, why reason) error {
		if why == counted {
			sample = append(sample, string(cutSyslog(record)))
		}
		if len(sample) == learnLines {
			return errEnough
		}
		return nil
	})

	to.learn(sample, nil)
}

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
		return "", nil, err
	}
	return l.Addr().String(), func(ctx context.Context) error { return s.accept(ctx, l) }, nil
}

// accept takes connections until the context is done; all of them have ended when it returns.
func (s *syslogSource) accept(ctx context.Context, l net.Listener) error {
	bounds := limited.Bounds{Connections: s.limits.connections, PerAddress: s.limits.connections / 2}
	l = limited.Listen(l, bounds, func(why error) { s.trouble("connections", why) })
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
			s.trouble("accept", err)
			sleep.For(ctx, 100*time.Millisecond)
			continue
		}

		if s.scheme != "tls" {
			limited.Busy(conn) // it keeps its place: lines that it has sent would be lost with it
		}
		running.Go(func() {
			s.isolated("the connection of "+conn.RemoteAddr().String(), func() { s.converse(ctx, conn) })
		})
	}
}

// refuses reports whether an address may not send, and counts the refusal.
func (s *syslogSource) refuses(from netip.Addr) bool {
	if !from.IsValid() || s.config.Syslog.From.may(from) {
		return false
	}
	s.metrics.uncounted[reasonSender].Inc()
	s.trouble("from", fmt.Errorf("%s may not send: from does not name it", from))
	return true
}
