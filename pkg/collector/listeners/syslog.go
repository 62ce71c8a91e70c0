package listeners

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/telemetry"
	"weir/pkg/collector/pipeline"
)

// A SyslogConfig describes a source that accepts lines as syslog.
type SyslogConfig struct {
	Listen string      // udp://host:port, tcp://, tls://, unix:///path (datagrams), unixstream:///path
	TLS    *tls.Config // for tls://
	From   *Senders    // who may send; nil is everyone
}

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
// gives way to others. Handshakes that have not arrived completely share 32 MiB.
//
// On an address other than loopback it needs to know who may send: from (by the address alone, which can be forged in
// a datagram), or client certificates. Without them it does not start. Any process that may write to a unix socket's
// folder may send. A connection that begins with an HTTP request line, or over TCP as TLS does, comes from a browser,
// caused by a hostile page: it is closed, and nothing of it is counted.
//
// One goroutine per connection reads, or one reads all datagrams; the stream's goroutine parses.
type syslogSource struct {
	in              *pipeline.Intake
	config          SyslogConfig
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

// NewSyslog makes a source of syslog.
func NewSyslog(in *pipeline.Intake, config SyslogConfig) (pipeline.Source, error) {
	scheme, address, _ := strings.Cut(config.Listen, "://")
	tls := config.TLS
	switch scheme {
	case "unix", "unixstream":
		return newSyslog(in, config, scheme, address), nil
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
	return newSyslog(in, config, scheme, address), nil
}

func newSyslog(in *pipeline.Intake, config SyslogConfig, scheme, address string) *syslogSource {
	s := &syslogSource{in: in, config: config, scheme: scheme, address: address}
	s.limit(usualSyslogLimits)
	return s
}

func (s *syslogSource) limit(l syslogLimits) {
	s.limits, s.inbox = l, newInbox(l.inboxBytes)
	registry, name := s.in.Registry(), s.in.Name()
	telemetry.Queue(registry, name, float64(l.inboxBytes), s.inbox.depth)
	if s.scheme == "udp" {
		s.dropped, s.kernel = telemetry.Dropped(registry, name), telemetry.Dropped(registry, name+"-socket")
	}
}

// Announce does nothing: no requests wait.
func (s *syslogSource) Announce() {}

func (s *syslogSource) Status() pipeline.SourceStatus { return s.in.Status("syslog") }

// A reader puts records into the inbox until the context is done.
type reader func(ctx context.Context) error

// refuses reports whether an address may not send, and counts the refusal.
func (s *syslogSource) refuses(from netip.Addr) bool {
	if !from.IsValid() || s.config.From.may(from) {
		return false
	}
	s.in.Uncounted(pipeline.ReasonSender, 1)
	s.in.Incident("from", fmt.Errorf("%s may not send: from does not name it", from))
	return true
}
