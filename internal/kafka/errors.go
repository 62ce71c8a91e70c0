package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/topic"
)

// kinds are the errors of brokers by kind.
var kinds = map[error][]kafkago.Error{
	topic.ErrUnreachable: {kafkago.RequestTimedOut, kafkago.NetworkException, kafkago.BrokerNotAvailable},
	topic.ErrLogin:       {kafkago.SASLAuthenticationFailed, kafkago.IllegalSASLState, kafkago.UnsupportedSASLMechanism},
	topic.ErrForbidden:   {kafkago.TopicAuthorizationFailed, kafkago.GroupAuthorizationFailed, kafkago.ClusterAuthorizationFailed},
	topic.ErrNoTopic:     {kafkago.UnknownTopicOrPartition},
	topic.ErrNoLeader:    {kafkago.LeaderNotAvailable, kafkago.NotLeaderForPartition, kafkago.ReplicaNotAvailable, kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch},
	topic.ErrSettings: {kafkago.InvalidTopic, kafkago.InvalidConfiguration, kafkago.InvalidReplicationFactor,
		kafkago.InvalidPartitionNumber, kafkago.PolicyViolation},
	topic.ErrInvalid:  {kafkago.InvalidRecord}, // not InvalidTimestamp: a record gets a new time whenever it is sent again
	topic.ErrTooLarge: {kafkago.MessageSizeTooLarge, kafkago.RecordListTooLarge, kafkago.OffsetMetadataTooLarge},
	topic.ErrExpelled: {kafkago.IllegalGeneration, kafkago.UnknownMemberId, kafkago.RebalanceInProgress, kafkago.FencedInstanceID},
}

func kindOfCode(code kafkago.Error) error {
	for kind, codes := range kinds {
		if slices.Contains(codes, code) {
			return kind
		}
	}
	return topic.ErrOther
}

// explained turns a broker's error into plain words: the broker's own, except where the configuration can solve it.
func (c *Client) explained(code kafkago.Error, err error) error {
	kind, line := kindOfCode(code), err.Error()
	switch kind {
	case topic.ErrSettings:
		// Kafka has no code of its own for this. It passes: so Kafka answers while it starts.
		if strings.Contains(line, "All brokers are currently fenced") {
			kind, line = topic.ErrUnreachable, "no broker of Kafka is ready: all are fenced"
		}
	case topic.ErrNoTopic:
		line = "the topic does not exist"
	case topic.ErrLogin:
		line = c.refusal(code)
	case topic.ErrForbidden:
		line = fmt.Sprintf("%s may not do this: %s", c.user(), code.Title())
	}
	return &topic.Error{Text: line, Kind: kind, Cause: err}
}

// rightless adds the remedy to an error of a user who lacks a right for a topic.
func (c *Client) rightless(err error, right, name string) error {
	if !errors.Is(err, topic.ErrForbidden) {
		return err
	}
	who := "…" // by the certificate that we show
	switch {
	case c.config.SASL != nil && c.config.SASL.User != "":
		who = c.config.SASL.User
	case c.config.TLS == nil || c.config.TLS.Cert == "":
		who = "ANONYMOUS"
	}
	text := fmt.Sprintf("%s; an administrator permits it: kafka-acls.sh --bootstrap-server %s --add --allow-principal 'User:%s' --operation %s --topic %s",
		err, c.config.Brokers[0], who, right, name)
	return &topic.Error{Text: text, Kind: topic.ErrForbidden, Cause: err}
}

func (c *Client) user() string {
	if c.config.SASL == nil {
		return "a user without a login"
	}
	return c.config.SASL.who()
}

func (c *Client) refusal(code kafkago.Error) string {
	switch {
	case c.config.SASL == nil:
		return "the brokers want a login: set " + c.config.setting("sasl")
	case code == kafkago.SASLAuthenticationFailed && c.config.SASL.name() == oauthBearer:
		return "the brokers refuse " + c.config.SASL.who() + ": it may be wrong or expired; the file is read again for each connection"
	case code == kafkago.SASLAuthenticationFailed:
		return fmt.Sprintf("the brokers refuse user %q: wrong password, or no such user for %s", c.config.SASL.User, c.config.SASL.Mechanism)
	case code == kafkago.UnsupportedSASLMechanism:
		return fmt.Sprintf("the brokers do not accept %s: set %s to one that they accept", c.config.SASL.Mechanism, c.config.setting("sasl.mechanism"))
	}
	return fmt.Sprintf("the brokers want no login on this port: remove %s, or use their port for it", c.config.setting("sasl"))
}
