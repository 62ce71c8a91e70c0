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
	"weir/internal/topic"
)

// SASL is our login. The password's file is read for each new connection; a line end after the password is ignored.
type SASL struct {
	Mechanism    string // plain, scram-sha-256 or scram-sha-512, in any case
	User         string
	PasswordFile string
}

func (s *SASL) mechanism() (sasl.Mechanism, error) {
	if s.User == "" {
		return nil, errors.New("user: no user is named")
	}
	file, err := regular.ReadFile(s.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("password_file: %w", err)
	}

	// Editors end a file with a newline, which no password has.
	password := strings.TrimRight(string(file), "\r\n")
	if password == "" {
		return nil, fmt.Errorf("password_file: %s is empty", s.PasswordFile)
	}

	switch s.name() {
	case "PLAIN":
		return plain.Mechanism{Username: s.User, Password: password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, s.User, password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, s.User, password)
	}

	return nil, fmt.Errorf("mechanism: %q is unknown; write plain, scram-sha-256 or scram-sha-512", s.Mechanism)
}

func (s *SASL) name() string { return strings.ToUpper(s.Mechanism) }

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
