package rabbit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"weir/pkg/collector/ordered"
)

const (
	callPatience = 3 * time.Second
	heartbeat    = 5 * time.Second

	answerPatience = 10 * time.Second
)

// A link is a connection to the server. It is made when it is needed.
type link struct {
	options Options
	conn    *amqp.Connection
	ended   <-chan *amqp.Error      // why the server has ended conn
	fault   *amqp.Error             // of ended
	wrap    func(net.Conn) net.Conn // nil leaves it as it is
}

// connect connects, unless there is a connection.
func (l *link) connect() error {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	l.ended, l.fault = nil, nil
	o := &l.options
	login := &amqp.PlainAuth{Username: "guest", Password: "guest"}
	if o.User != "" {
		password, err := o.Password()
		if err != nil {
			return err
		}
		login = &amqp.PlainAuth{Username: o.User, Password: password}
	}
	_, place, _ := strings.Cut(o.URL, "://")
	conn, err := amqp.DialConfig("amqp://"+place, amqp.Config{ // dial does TLS, below what it wraps
		SASL: []amqp.Authentication{login}, Heartbeat: heartbeat, FrameSize: mostFrame, Dial: l.dial,
		Properties: amqp.Table{"connection_name": "weir"},
	})
	if err != nil {
		return err
	}
	l.conn, l.ended = conn, conn.NotifyClose(make(chan *amqp.Error, 1))
	return nil
}

func (l *link) dial(network, address string) (net.Conn, error) {
	conn, err := amqp.DefaultDial(callPatience)(network, address)
	if err != nil {
		return nil, err
	}
	if scheme, _, _ := strings.Cut(l.options.URL, "://"); strings.EqualFold(scheme, "amqps") {
		secure := tls.Client(conn, l.tls(address))
		if err := secure.Handshake(); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = secure
	}
	conn = newBare(conn)
	if l.wrap == nil {
		return conn, nil
	}
	return l.wrap(conn), nil
}

// tls is the configuration of TLS to a server.
func (l *link) tls(address string) *tls.Config {
	c := &tls.Config{}
	if l.options.TLS != nil {
		c = l.options.TLS.Clone()
	}
	if host, _, err := net.SplitHostPort(address); err == nil && c.ServerName == "" {
		c.ServerName = host
	}
	return c
}

// within calls a function that asks the server, for example a quorum queue that has no leader. When the server does not
// answer in time, or the context ends, the connection ends.
func (l *link) within(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerPatience, errSilent)
	defer cancel()
	if err := l.connect(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, l.close)()
	err := ask()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

var errSilent = errors.New("it does not answer")

// close ends the connection. Nothing is lost.
func (l *link) close() {
	if l.conn != nil {
		_ = l.conn.CloseDeadline(time.Now().Add(callPatience))
	}
}

// explain adds what can be done about an error.
func (l *link) explain(err error) error {
	closed := l.conn != nil && l.conn.IsClosed()
	var fault *amqp.Error
	if !errors.As(err, &fault) {
		if err != nil && closed && l.failed() {
			return errUnsent
		}
		if err != nil && closed && l.fault != nil {
			err = fmt.Errorf("%w: %s", err, l.fault.Reason)
		}
		if err != nil && closed && !errors.Is(err, errSilent) {
			return fmt.Errorf("the server cannot be reached: %w", err)
		}
		return err
	}
	switch {
	case fault.Code == amqp.NotFound && strings.Contains(fault.Reason, "is down"):
		return fmt.Errorf("the server does not have the queue yet, or not any more: %s", fault.Reason)
	case fault.Code == amqp.NotFound:
		return ordered.ErrMissing
	case fault.Code == amqp.AccessRefused && (l.conn == nil || closed):
		return fmt.Errorf("the server refuses our user: %s; correct the user or the password of the source: its file is read again", fault.Reason)
	case fault.Code == amqp.AccessRefused && strings.Contains(fault.Reason, "exclusive"):
		return fmt.Errorf("another program alone may read the queue: %s", fault.Reason)
	case fault.Code == amqp.AccessRefused:
		return fmt.Errorf("%s; an administrator permits it: rabbitmqctl set_permissions -p VHOST USER '' '' %s", fault.Reason, l.options.Queue)
	case noStream(fault):
		return errors.New("the queue is not a stream: a message of it is gone once it is acknowledged; declare it with x-queue-type: stream, or write acknowledge: true to take its messages out of it")
	}
	return err
}

// failed reports whether the server has ended the connection because of a fault of its own.
func (l *link) failed() bool {
	select {
	case why, first := <-l.ended:
		if first {
			l.fault = why
		}
	default:
	}
	return l.fault != nil && l.fault.Code == amqp.InternalError
}

// noStream reports whether the server has refused to read a queue by offsets, because it is no stream.
func noStream(err error) bool {
	var fault *amqp.Error
	return errors.As(err, &fault) && fault.Code == amqp.PreconditionFailed && strings.Contains(fault.Reason, offsetHeader)
}
