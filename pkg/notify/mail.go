package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"weir/internal/salted"
)

// Mail sends messages by SMTP.
type Mail struct {
	Server       string // host:port
	From         string
	To           []string
	User         string // empty is no login
	PasswordFile string
	TLS          MailTLS
	CA           string // the file of roots; empty is the system's
	UserAgent    string
}

// MailTLS is how a connection to a mail server is encrypted.
type MailTLS int

// The ways.
const (
	MailStartTLS MailTLS = iota // STARTTLS has to succeed
	MailOffered                 // STARTTLS where the server offers it
	MailImplicit                // TLS from the beginning
	MailClear                   // never
)

// Kind implements Target.
func (*Mail) Kind() string { return "mail" }

// mailEvents is how many events a mail lists.
const mailEvents = 100

func (*Mail) shape() shape { return shape{events: mailEvents} }

// Send implements Target. The caller ends the context, and with it the connection.
func (s *Mail) Send(ctx context.Context, m *Message) (string, error) {
	message, err := s.message(m)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errRefused, err)
	}
	client, err := s.client(ctx)
	if err != nil {
		return "", err
	}
	if err := client.DialWithContext(ctx); err != nil {
		return "", fmt.Errorf("connecting to %s: %w", s.Server, err)
	}
	err = client.Send(message)
	_ = client.Close() // the server has the mail, or has refused it; an error now must not send it again
	if err != nil && !message.IsDelivered() {
		return "", mailError(err)
	}
	return "accepted by " + s.Server, nil
}

// mailError finds out whether a mail itself was refused.
func mailError(err error) error {
	refused := (*mail.SendError)(nil)
	if !errors.As(err, &refused) || refused.IsTemp() {
		return err
	}
	switch refused.Reason {
	case mail.ErrSMTPRcptTo, mail.ErrSMTPDataClose, mail.ErrWriteContent:
		if refused.ErrorCode()/100 == 5 {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	return err
}

// client makes the client of one mail.
func (s *Mail) client(ctx context.Context) (*mail.Client, error) {
	host, port, err := net.SplitHostPort(s.Server)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	secure, err := trusting(s.CA)
	if err != nil {
		return nil, err
	}
	secure.ServerName = host
	options := []mail.Option{mail.WithPort(number), mail.WithTLSConfig(secure), mail.WithTLSPolicy(s.policy()), mail.WithoutNoop(), mail.WithoutRset()}
	if end, ok := ctx.Deadline(); ok {
		options = append(options, mail.WithTimeout(max(time.Millisecond, time.Until(end))))
	}
	dial := dialUntil(ctx)
	if s.TLS == MailImplicit {
		dial = encrypted(dial, secure)
	}
	options = append(options, mail.WithDialContextFunc(dial))
	if s.User != "" {
		password, err := secret(s.PasswordFile)
		if err != nil {
			return nil, err
		}
		options = append(options, mail.WithSMTPAuthCustom(&login{host: host, user: s.User, password: password}))
	}
	return mail.NewClient(host, options...)
}

// A login is in the best way that the server offers, as the library would choose it, but without a channel binding.
type login struct {
	smtp.Auth
	host, user, password string
}

// Start chooses the way.
func (l *login) Start(server *smtp.ServerInfo) (way string, first []byte, err error) {
	offers := func(way mail.SMTPAuthType) bool { return slices.Contains(server.Auth, string(way)) }
	switch {
	case offers(mail.SMTPAuthSCRAMSHA256):
		l.Auth = smtp.ScramSHA256Auth(l.user, l.password)
	case offers(mail.SMTPAuthSCRAMSHA1):
		l.Auth = smtp.ScramSHA1Auth(l.user, l.password)
	case offers(mail.SMTPAuthNTLM):
		l.Auth = smtp.NTLMAuth(l.user, l.password, "")
	case offers(mail.SMTPAuthCramMD5):
		l.Auth = smtp.CRAMMD5Auth(l.user, l.password)
	case offers(mail.SMTPAuthPlain) && server.TLS:
		l.Auth = smtp.PlainAuth("", l.user, l.password, l.host, false)
	case offers(mail.SMTPAuthLogin) && server.TLS:
		l.Auth = smtp.LoginAuth(l.user, l.password, l.host, false)
	default:
		return "", nil, mail.ErrNoSupportedAuthDiscovered
	}
	return l.Auth.Start(server)
}

// Next answers the server, unless it wants SCRAM to take so long that nothing would end it.
func (l *login) Next(challenge []byte, more bool) ([]byte, error) {
	if err := salted.Check("mail server", challenge); err != nil {
		return nil, err
	}
	return l.Auth.Next(challenge, more)
}

func (s *Mail) policy() mail.TLSPolicy {
	switch s.TLS {
	case MailStartTLS:
		return mail.TLSMandatory
	case MailOffered, MailImplicit: // with MailImplicit the library looks whether the connection is encrypted
		return mail.TLSOpportunistic
	}
	return mail.NoTLS
}

// dialUntil connects. The end of the outer context ends everything that happens on the connection: the library moves its
// own deadline with each command.
func dialUntil(outer context.Context) mail.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(outer, func() { conn.Close() })
		return &brief{conn, maxReplies}, nil
	}
}

// encrypted connects with TLS.
func encrypted(dial mail.DialContextFunc, c *tls.Config) mail.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, c)
		return secure, secure.HandshakeContext(ctx)
	}
}

// maxReplies is how many bytes a mail server may send about one mail.
const maxReplies = 256 << 10

var errManyReplies = errors.New("the mail server sends replies without end")

// A brief connection ends after a number of bytes: the library keeps a reply in memory, however long it is.
type brief struct {
	net.Conn
	left int
}

// Read reads what may still come.
func (b *brief) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errManyReplies
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// message makes a mail. The library encodes header fields, and refuses addresses with line breaks.
func (s *Mail) message(m *Message) (*mail.Msg, error) {
	message := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := message.From(s.From); err != nil {
		return nil, err
	}
	if err := message.To(s.To...); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(strings.Trim(s.From, "<> "), "@")
	message.SetMessageIDWithValue(m.ID + "@" + strings.TrimRight(domain, "> "))
	message.SetDateWithValue(m.Time)
	message.Subject("[Weir] " + m.Title())
	message.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no one answers it automatically
	message.SetGenHeader("X-Weir-Severity", m.Severity)
	message.SetUserAgent(s.UserAgent)
	message.SetBodyString(mail.TypeTextPlain, s.body(m))
	return message, nil
}

func (s *Mail) body(m *Message) string {
	var b strings.Builder
	b.WriteString(m.Title() + "\n\n")
	for _, line := range m.lines(mailEvents, unquoted) {
		b.WriteString(line + "\n")
	}
	if len(m.Events) > 0 {
		b.WriteString("\nweir history KEY shows all events of a key, weir unblock KEY --why … lets it in.\n")
	}
	return b.String()
}
