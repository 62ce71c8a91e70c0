// Package jetstream reads a stream of NATS JetStream, as a log of package ordered. It makes a consumer in the server's
// memory that nothing is acknowledged to, and that the server removes when it is not used for 30 s.
//
// The position of a message is its sequence number. A stream is known by the time at which it was made. If the message
// that was read last has another time, or the stream ends before it, the server has lost writes or is an older copy: then
// reading goes on with the messages that are newer than the last one.
//
// Messages that the client drops, because they came faster than they were read, show as a gap in the consumer's own
// numbers; then another consumer begins there.
//
// Bounds. A page has at most 2,000 messages, or about 1 MiB. At most 500 messages and 8 MiB are asked for at a time, or
// one longer message, which the server's max_payload bounds.
package jetstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/pkg/collector/ordered"
)

const (
	askedMessages = 500
	askedBytes    = 8 << 20
	pageMessages  = 2000
	pageBytes     = 1 << 20
	waitFor       = 500 * time.Millisecond
	callPatience  = 3 * time.Second
	sampleOfLong  = 1 << 10
)

// Options name a stream.
type Options struct {
	URL     string // nats:// or tls://, several with commas between them
	Stream  string
	Subject string // only messages of these subjects, which may have wildcards; empty is all
	TLS     *tls.Config

	User            string
	Password, Token func() (string, error) // for each new connection; nil is none
	Credentials     string                 // a file of a JWT and its key, read for each new connection
}

// Open makes a log of a stream. It does not connect yet.
func Open(o Options) (ordered.Log, error) { return &stream{options: o}, nil }

// A stream is a stream, and the consumer that reads it.
type stream struct {
	options Options
	conn    *nats.Conn
	js      jetstream.JetStream
	noted   fault

	consumer jetstream.Consumer // nil: it has to be made
	batch    jetstream.MessageBatch
	single   bool          // the next message may be longer than askedBytes
	got      uint64        // the consumer's number of the last message
	at       int64         // the position after it
	waiting  int64         // messages after it
	held     jetstream.Msg // it belongs to the next page
}

// A fault is the last error that the connection had outside of any call.
type fault struct {
	mu  sync.Mutex
	err error
}

func (f *fault) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fault) take() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.err
	f.err = nil
	return err
}

func (s *stream) String() string {
	if s.options.Subject != "" {
		return s.options.Stream + " " + s.options.Subject
	}
	return s.options.Stream
}

// Close ends the connection.
func (s *stream) Close() {
	if s.conn != nil {
		s.conn.Close()
	}
}

// connect connects, unless that was done. The client connects again by itself.
func (s *stream) connect() error {
	if s.conn != nil {
		return nil
	}
	o := &s.options
	options := []nats.Option{
		nats.Name("weir"), nats.SetCustomDialer(newDialer(o, s.noted.set)), nats.SkipHostLookup(), nats.Timeout(callPatience), nats.MaxReconnects(-1), nats.ReconnectWait(waitFor), nats.ReconnectBufSize(-1),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2), nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.noted.set(err) }),
	}
	if o.TLS != nil {
		options = append(options, nats.Secure(o.TLS))
	}
	if o.Password != nil {
		options = append(options, nats.UserInfoHandler(func() (string, string) { return o.User, s.secret(o.Password) }))
	}
	if o.Token != nil {
		options = append(options, nats.TokenHandler(func() string { return s.secret(o.Token) }))
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	conn, err := nats.Connect(o.URL, options...)
	if err != nil {
		return err
	}
	s.conn = conn
	s.js, err = jetstream.New(conn, jetstream.WithDefaultTimeout(callPatience))
	return err
}

func (s *stream) secret(read func() (string, error)) string {
	text, err := read()
	if err != nil {
		s.noted.set(err)
	}
	return text
}

// explain adds what can be done about an error.
func (s *stream) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return ordered.ErrMissing
	case errors.Is(err, nats.ErrNoServers):
		err = fmt.Errorf("the server cannot be reached: %w", err)
	case s.conn != nil && s.conn.Status() != nats.CONNECTED:
		err = errors.Join(errors.New("the server cannot be reached"), s.conn.LastError())
	}
	if noted := s.noted.take(); noted != nil {
		err = errors.Join(err, noted)
	}
	text := strings.ReplaceAll(err.Error(), "\n", ": ")
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return fmt.Errorf("%s; an administrator permits publishing to $JS.API.STREAM.INFO.%s, $JS.API.STREAM.MSG.GET.%[2]s, $JS.API.DIRECT.GET.%[2]s, $JS.API.CONSUMER.CREATE.%[2]s.> and $JS.API.CONSUMER.MSG.NEXT.%[2]s.>, and subscribing to _INBOX.>", text, s.options.Stream)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("the server refuses our user: %s; correct the user, the password, the token or the credentials of the source: their files are read again", text)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%s: start the server with --jetstream, or enable it for the account", text)
	}
	return errors.New(text)
}

// Extent looks at the stream.
func (s *stream) Extent(ctx context.Context, was *ordered.Known) (ordered.Extent, error) {
	s.consumer, s.batch, s.held = nil, nil, nil
	e, err := s.extent(ctx, was)
	return e, s.explain(err)
}

func (s *stream) extent(ctx context.Context, was *ordered.Known) (e ordered.Extent, err error) {
	if err := s.connect(); err != nil {
		return e, err
	}
	now, err := s.js.Stream(ctx, s.options.Stream)
	if err != nil {
		return e, err
	}
	info := now.CachedInfo()
	if kept := info.Config.Retention; kept != jetstream.LimitsPolicy {
		return e, fmt.Errorf("the stream has the retention %s: its messages are deleted once a consumer acknowledges them, which Weir does not do; have it republish them to the subjects of a second stream, which has the retention limits, and name that one", strings.ToLower(kept.String()))
	}
	last := int64(info.State.LastSeq)
	e = ordered.Extent{
		Identity: strconv.FormatInt(info.Created.UnixNano(), 36),
		First:    ordered.Place{Position: min(max(0, int64(info.State.FirstSeq)-1), last)},
		Last:     ordered.Place{Position: last},
	}
	if was == nil {
		return e, nil
	}
	if was.Identity != e.Identity {
		e.Other, e.Begin = "the stream was deleted and made again", e.First
		return e, nil
	}

	at, err := readMark(was.ID)
	if err != nil || at.seq == 0 {
		return e, err
	}
	if last >= was.Position && agrees(ctx, now, at) {
		return e, nil
	}
	e.Other = fmt.Sprintf("the server went back, perhaps to an older copy: it has %d messages, and not the one that was read at %d; messages up to its time are not read again", last, at.seq)
	e.Begin, err = s.since(ctx, now, time.Unix(0, at.time+1), last)
	return e, err
}

// agrees reports whether a message that was read is the one that the stream has at its number, as far as it has one.
func agrees(ctx context.Context, of jetstream.Stream, at mark) bool {
	found, err := of.GetMsg(ctx, at.seq)
	return err != nil || found.Time.UnixNano() == at.time
}

// Since returns the place before the first message that is not older than a time.
func (s *stream) Since(ctx context.Context, at time.Time) (ordered.Place, error) {
	now, err := s.js.Stream(ctx, s.options.Stream)
	if err != nil {
		return ordered.Place{}, s.explain(err)
	}
	place, err := s.since(ctx, now, at, int64(now.CachedInfo().State.LastSeq))
	return place, s.explain(err)
}

// since asks for the first message that is not older than a time. Without one, it is the end.
func (s *stream) since(ctx context.Context, of jetstream.Stream, at time.Time, last int64) (ordered.Place, error) {
	consumer, err := of.CreateConsumer(ctx, s.consumerFrom(jetstream.DeliverByStartTimePolicy, 0, &at))
	if err != nil {
		return ordered.Place{}, err
	}
	batch, err := consumer.FetchNoWait(1)
	if err != nil {
		return ordered.Place{}, err
	}
	came := false
	for msg := range batch.Messages() {
		about, err := msg.Metadata()
		if err != nil {
			return ordered.Place{}, err
		}
		came, last = true, int64(about.Sequence.Stream)-1
	}
	if info := consumer.CachedInfo(); !came && info.NumPending > 0 { // the first one is hidden
		return ordered.Place{Position: int64(info.Delivered.Stream)}, nil
	}
	return ordered.Place{Position: last}, batch.Error()
}

// consumerFrom describes a consumer.
func (s *stream) consumerFrom(policy jetstream.DeliverPolicy, seq uint64, at *time.Time) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		DeliverPolicy: policy, OptStartSeq: seq, OptStartTime: at, FilterSubject: s.options.Subject,
		AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 1, MemoryStorage: true, Replicas: 1, InactiveThreshold: 30 * time.Second,
	}
}
