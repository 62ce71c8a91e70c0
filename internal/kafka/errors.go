package kafka

import (
	"errors"
	"fmt"
	"slices"

	kafkago "github.com/segmentio/kafka-go"
)

// The kinds of errors. Every error of the package wraps one of them, or is the cause of the caller's context.
var (
	ErrUnreachable = errors.New("unreachable")  // no broker answers
	ErrTLS         = errors.New("tls")          // one side speaks TLS and the other does not, or a certificate is not accepted
	ErrLogin       = errors.New("login")        // user, password or mechanism are not accepted
	ErrForbidden   = errors.New("forbidden")    // the user may not do this
	ErrNoTopic     = errors.New("no topic")     // the topic, or that partition of it, does not exist
	ErrNoLeader    = errors.New("no leader")    // the partition has no leader, or another broker than the one asked leads it
	ErrPartitions  = errors.New("partitions")   // the topic has another number of partitions than it should; permanent
	ErrSettings    = errors.New("settings")     // a topic's settings are refused or are wrong; permanent
	ErrInvalid     = errors.New("invalid")      // the broker refuses this record; permanent
	ErrTooLarge    = errors.New("too large")    // the broker refuses a record or a commit of this size; permanent
	ErrTrimmed     = errors.New("trimmed")      // the log begins after the wanted offset
	ErrPastEnd     = errors.New("past the end") // the log ends before the wanted offset
	ErrExpelled    = errors.New("expelled")     // the group has gone on without us
	ErrFull        = errors.New("full")         // the producer's queue has no room
	ErrClosed      = errors.New("closed")       // by us
	ErrOther       = errors.New("other")        // any other error of a broker
)

// ErrPermanent is, by errors.Is, every error that repeating the same call cannot solve. All others are transient.
var ErrPermanent = errors.New("permanent")

var permanent = []error{ErrPartitions, ErrSettings, ErrInvalid, ErrTooLarge}

// kinds are the errors of brokers by kind.
var kinds = map[error][]kafkago.Error{
	ErrUnreachable: {kafkago.RequestTimedOut, kafkago.NetworkException, kafkago.BrokerNotAvailable},
	ErrLogin:       {kafkago.SASLAuthenticationFailed, kafkago.IllegalSASLState, kafkago.UnsupportedSASLMechanism},
	ErrForbidden:   {kafkago.TopicAuthorizationFailed, kafkago.GroupAuthorizationFailed, kafkago.ClusterAuthorizationFailed},
	ErrNoTopic:     {kafkago.UnknownTopicOrPartition},
	ErrNoLeader:    {kafkago.LeaderNotAvailable, kafkago.NotLeaderForPartition, kafkago.ReplicaNotAvailable, kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch},
	ErrSettings: {kafkago.InvalidTopic, kafkago.InvalidConfiguration, kafkago.InvalidReplicationFactor,
		kafkago.InvalidPartitionNumber, kafkago.PolicyViolation},
	ErrInvalid:  {kafkago.InvalidTimestamp, kafkago.InvalidRecord},
	ErrTooLarge: {kafkago.MessageSizeTooLarge, kafkago.RecordListTooLarge, kafkago.OffsetMetadataTooLarge},
	ErrExpelled: {kafkago.IllegalGeneration, kafkago.UnknownMemberId, kafkago.RebalanceInProgress, kafkago.FencedInstanceID},
}

// A causeError is an error in plain words: one line, and its kind.
type causeError struct {
	text string
	kind error
	err  error // the error of kafka-go or the broker; may be nil
}

func errorf(kind error, format string, arguments ...any) *causeError {
	return &causeError{text: fmt.Sprintf(format, arguments...), kind: kind}
}

func (f *causeError) Error() string { return f.text }

func (f *causeError) Unwrap() []error {
	if f.err == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.err}
}

func (f *causeError) Is(target error) bool {
	return target == ErrPermanent && slices.Contains(permanent, f.kind)
}

// kindOf returns the kind of an error of the package.
func kindOf(err error) error {
	var known *causeError
	if errors.As(err, &known) {
		return known.kind
	}
	return ErrOther
}

func kindOfCode(code kafkago.Error) error {
	for kind, codes := range kinds {
		if slices.Contains(codes, code) {
			return kind
		}
	}
	return ErrOther
}

// explained turns a broker's error into plain words: the broker's own, except where the configuration can solve it.
func (c *Client) explained(code kafkago.Error, err error) error {
	kind, line := kindOfCode(code), err.Error()
	switch kind {
	case ErrNoTopic:
		line = "the topic does not exist"
	case ErrLogin:
		line = c.refusal(code)
	case ErrForbidden:
		line = fmt.Sprintf("%s may not do this: %s", c.user(), code.Title())
	}
	return &causeError{text: line, kind: kind, err: err}
}

func (c *Client) user() string {
	if c.config.SASL == nil {
		return "a user without a login"
	}
	return fmt.Sprintf("user %q", c.config.SASL.User)
}

func (c *Client) refusal(code kafkago.Error) string {
	switch {
	case c.config.SASL == nil:
		return "the brokers want a login: set kafka.sasl"
	case code == kafkago.SASLAuthenticationFailed:
		return fmt.Sprintf("the brokers refuse user %q: wrong password, or no such user for %s", c.config.SASL.User, c.config.SASL.Mechanism)
	case code == kafkago.UnsupportedSASLMechanism:
		return fmt.Sprintf("the brokers do not accept %s: set kafka.sasl.mechanism to one that they accept", c.config.SASL.Mechanism)
	}
	return "the brokers want no login on this port: remove kafka.sasl, or use their port for it"
}
