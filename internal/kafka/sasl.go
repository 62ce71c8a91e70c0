package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"weir/internal/regular"
	"weir/internal/salted"
	"weir/internal/telemetry"
	"weir/internal/topic"
)

// SASL is our login. The file of the password or the token is read for each new connection; a line end after it is
// ignored.
type SASL struct {
	Mechanism    string // plain, scram-sha-256, scram-sha-512 or oauthbearer, in any case
	User         string // not with oauthbearer
	PasswordFile string // the same
	TokenFile    string // with oauthbearer
}

func (s *SASL) mechanism() (sasl.Mechanism, error) {
	if s.name() == oauthBearer {
		token, err := secret("token_file", s.TokenFile)
		return bearer(token), err
	}
	if s.User == "" {
		return nil, errors.New("user: no user is named")
	}
	password, err := secret("password_file", s.PasswordFile)
	if err != nil {
		return nil, err
	}

	switch s.name() {
	case "PLAIN":
		return plain.Mechanism{Username: s.User, Password: password}, nil
	case "SCRAM-SHA-256":
		return limited(scram.Mechanism(scram.SHA256, s.User, password))
	case "SCRAM-SHA-512":
		return limited(scram.Mechanism(scram.SHA512, s.User, password))
	}

	return nil, fmt.Errorf("mechanism: %q is unknown; write plain, scram-sha-256, scram-sha-512 or oauthbearer", s.Mechanism)
}

// secret reads a file that a key of the configuration names.
func secret(key, path string) (string, error) {
	file, err := regular.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}

	// Editors end a file with a newline, which no password has.
	text := strings.TrimRight(string(file), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s: %s is empty", key, path)
	}
	telemetry.Secret(path, text)
	return text, nil
}

// A saltedLogin is one by SCRAM that ends where the broker wants it to take too long: nothing else would end it.
type saltedLogin struct{ sasl.Mechanism }

func limited(m sasl.Mechanism, err error) (sasl.Mechanism, error) { return saltedLogin{m}, err }

func (s saltedLogin) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	conversation, first, err := s.Mechanism.Start(ctx)
	return saltedConversation{conversation}, first, err
}

type saltedConversation struct{ sasl.StateMachine }

func (s saltedConversation) Next(ctx context.Context, challenge []byte) (done bool, response []byte, err error) {
	if err := salted.Check("broker", challenge); err != nil {
		return false, nil, err
	}
	return s.StateMachine.Next(ctx, challenge)
}

func (s *SASL) name() string { return strings.ToUpper(s.Mechanism) }

// who names the login in messages.
func (s *SASL) who() string {
	if s.name() == oauthBearer {
		return "the token in " + s.TokenFile
	}
	return fmt.Sprintf("user %q", s.User)
}

const oauthBearer = "OAUTHBEARER"

// A bearer logs in with a token (RFC 7628), which kafka-go cannot.
type bearer string

func (b bearer) Name() string { return oauthBearer }

func (b bearer) Start(context.Context) (sasl.StateMachine, []byte, error) {
	return b, []byte("n,,\x01auth=Bearer " + string(b) + "\x01\x01"), nil
}

// Next answers a broker that says why it refuses the token. Its error follows the answer.
func (b bearer) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	return len(challenge) == 0, []byte{1}, nil
}

// A login implements kafka-go's interface for a SASL: it looks up the password when a connection starts.
type login struct {
	config  SASL
	section string // its name in the configuration
}

func (l *login) Name() string { return l.config.name() }

func (l *login) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	mechanism, err := l.config.mechanism()
	if err != nil {
		return nil, nil, &topic.Error{Text: l.section + ": " + err.Error(), Kind: topic.ErrLogin, Cause: err}
	}
	return mechanism.Start(ctx)
}
