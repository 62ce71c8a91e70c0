// Package listeners has the sources that clients send to: requests posted over HTTP, OpenTelemetry's logs over gRPC and
// HTTP, what Loki's clients push, lines sent as syslog, and lines of a pipe. Nothing that was sent can be read again:
// HTTP and gRPC answer once Kafka has a body, and syslog and pipes have no answers.
//
// The package bounds what clients may make it keep, and refuses those that may not send. It does not know what a line
// says.
package listeners

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"weir/internal/keys"
	"weir/internal/origin"
	"weir/pkg/collector/journal"
	"weir/pkg/collector/pace"
	"weir/pkg/collector/pipeline"
)

// addressOf is the IP address of a connection's other end; the zero address for a unix socket.
func addressOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	return netip.Addr{}
}

var errUnguarded = errors.New("other machines can reach it, and clients there are not authenticated")

// guard refuses an address that other machines can reach, unless the senders there are checked.
func guard(address string, config *tls.Config, guarded bool) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return err
	}
	if origin.IsLoopback(address) || guarded || keys.AsksCertificates(config) {
		return nil
	}
	return errUnguarded
}

// incarnation makes the stream of a source that cannot be read again. It has a new name after each start of the
// process, and positions from 0, so that none of its batches is taken for one sent before. atOnce is for senders that
// wait for an answer.
func incarnation(in *pipeline.Intake, address string, atOnce bool) *pipeline.Stream {
	s := in.NewStream(pipeline.StreamConfig{Log: address, Source: in.Name() + "/" + journal.NewID(), Reached: pace.NoTime, NotBefore: pace.NoTime, AtOnce: atOnce})
	s.SetBehind(false)
	return s
}

// closeWith closes c when the context is done, or when the returned function is called.
func closeWith(ctx context.Context, c io.Closer) (now func()) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	return func() {
		stop()
		c.Close()
	}
}

// lingering returns a context for the end of a source: it ends drainPatience after ctx.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	linger, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(pipeline.DrainPatience):
			cancel(errUnsent)
		case <-linger.Done():
		}
	})
	return linger, func() { stop(); cancel(nil) }
}

var errUnsent = errors.New("kafka did not acknowledge in time")
