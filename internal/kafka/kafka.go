// Package kafka is a thin layer over kafka-go: one place for addresses, TLS, SASL, time-outs and metadata, and for
// error messages that name the true cause.
//
// A Client opens connections when they are needed. It creates or checks topics (EnsureTopics), sends records
// (Producer), reads a partition (Reader), shares partitions with other members (Group), and asks for offsets. The same
// calls go to Apache Kafka; tests also have a broker in their own process (package embedded).
//
// Guarantees. A Producer keeps the order of each partition, has one request in flight per partition and answers
// every accepted record exactly once, in order. A Reader returns every record that the log still has, in order, on
// compacted logs too. A Group gives a partition up only after its owner's function has returned. A record may be in the
// log twice: when a broker's answer is lost, it is sent again.
//
// Errors are one line with the true cause; kafka-go calls a wrong password, a bad certificate and an absent broker all
// "topic not found". errors.Is distinguishes their kinds (ErrUnreachable, ErrLogin, ErrNoTopic …), and ErrPermanent
// matches those that repeating cannot solve. All others are transient: this package counts them, logs them at most once
// a minute with their count, pauses, and tries again.
//
// All methods of a Client, a Producer and a Group may be called at the same time; a Reader belongs to one goroutine.
// Close ends all goroutines and waits for them. Memory: a Producer keeps the bytes that it is configured for, plus
// those of one call at most. A Reader keeps one answer, at most twice its MaxBytes of it for the next one, and the
// unpacked records of compressed batches.
//
// Not supported: transactions and idempotent producing (sequences in our batches make repeats harmless), reading only
// committed records, record headers, compression.
package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"weir/internal/topic"
)

// requestTimeout bounds every request. kafka-go gives brokers half of it as their own time-out.
const requestTimeout = 5 * time.Second

// idleTimeout is how long an unused connection is kept: less than the limits of brokers and of devices in between.
const idleTimeout = 3 * time.Minute

// clientID is our name in the logs and quotas of brokers.
const clientID = "weir"

// Config configures the connection to Kafka.
type Config struct {
	Brokers []string // host:port of some brokers, which name the others
	TLS     *TLS     // nil: no TLS
	SASL    *SASL    // nil: no login
	Prefix  string   // of the names of our topics and groups
	Create  bool     // EnsureTopics creates missing topics; otherwise its error has the commands

	// Section is the section of the configuration that has TLS and SASL, for messages; empty is kafka.
	Section string

	// Topics are the only topics that the client may be asked about. An empty list allows all topics of the cluster,
	// whose metadata is then fetched every second.
	Topics []string

	// Session is how long a member of a group may send no heartbeat until the group gives its partitions to others. Kafka
	// allows 6 s to 30 min, unless its operator has chosen other limits. Zero is 9 s.
	Session time.Duration

	// Places is a folder in which members of groups keep their ids, so that a process that was killed is replaced when it
	// starts again, and not after its session. It is made when missing; empty keeps none.
	Places string

	// Dial makes connections; nil is TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Logger  *slog.Logger          // nil logs nothing
	Metrics prometheus.Registerer // nil: no metrics; several clients may share one
}

// Name returns the full name of one of our topics or groups: the prefix and the word.
func (c Config) Name(word string) string { return c.Prefix + word }

// setting names a setting for messages: kafka.tls.
func (c Config) setting(key string) string { return cmp.Or(c.Section, "kafka") + "." + key }

// Validate returns all errors of the configuration, including those of its files.
func (c Config) Validate() error {
	var faults []error
	if len(c.Brokers) == 0 {
		faults = append(faults, fmt.Errorf("%s: none are named; only weir run needs none, because it keeps its topics in its store; any other process needs kafka.brokers: [host:9092]", c.setting("brokers")))
	}

	for _, broker := range c.Brokers {
		if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
			faults = append(faults, fmt.Errorf("%s: %q is not host:port", c.setting("brokers"), broker))
		}
	}

	if c.TLS != nil {
		if _, err := c.TLS.config(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", c.setting("tls"), err))
		}
	}

	if c.SASL != nil {
		if _, err := c.SASL.mechanism(); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", c.setting("sasl"), err))
		}
	}

	return errors.Join(faults...)
}

// A Client connects to one cluster.
type Client struct {
	config    Config
	dialer    *dialer
	transport *kafkago.Transport
	kafka     *kafkago.Client
	errorLog  *errorLog
	login     sasl.Mechanism     // nil is none
	room      chan []byte        // for long records
	end       context.CancelFunc // of the transport's context
	closed    atomic.Bool
}

// Open checks the configuration. Connections are made when they are needed; Close closes them.
func Open(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))

	c := &Client{config: config, dialer: newDialer(config), errorLog: newErrorLog(config.Logger, config.Metrics), room: newRoom()}
	if config.SASL != nil {
		c.login = &login{config: *config.SASL, section: config.setting("sasl")}
	}

	running, end := context.WithCancel(context.Background())
	c.end = end
	c.transport = c.newTransport(running)
	c.kafka = &kafkago.Client{Addr: kafkago.TCP(config.Brokers...), Timeout: requestTimeout, Transport: c.transport}
	return c, nil
}

// newTransport makes a transport whose connections end with the context.
func (c *Client) newTransport(ctx context.Context) *kafkago.Transport {
	return &kafkago.Transport{
		Dial:           c.dialer.dial,
		DialTimeout:    requestTimeout,
		IdleTimeout:    idleTimeout,
		MetadataTTL:    time.Second,
		MetadataTopics: c.config.Topics,
		ClientID:       clientID,
		SASL:           c.login,
		Context:        ctx,
	}
}

// Close closes all connections and waits until their readers have ended. Producers, readers and groups of the client
// must be closed before. Later calls fail with ErrClosed.
func (c *Client) Close() {
	c.closed.Store(true)
	c.end()
	c.transport.CloseIdleConnections()
	c.dialer.close()
}

// Cluster returns the brokers and topics. It is the cheapest way to check whether Kafka can be reached.
func (c *Client) Cluster(ctx context.Context) (topic.Cluster, error) {
	metadata, err := c.metadata(ctx)
	if err != nil {
		return topic.Cluster{}, fmt.Errorf("asking Kafka for its brokers: %w", err)
	}

	cluster := topic.Cluster{ID: metadata.ClusterID}
	for _, broker := range metadata.Brokers {
		cluster.Brokers = append(cluster.Brokers, net.JoinHostPort(broker.Host, fmt.Sprint(broker.Port)))
	}

	for _, found := range metadata.Topics {
		if found.Error == nil && !found.Internal && !strings.HasPrefix(found.Name, "__") {
			cluster.Topics = append(cluster.Topics, found.Name)
		}
	}

	return cluster, nil
}

// Partitions returns how many partitions a topic has. It costs no request.
func (c *Client) Partitions(ctx context.Context, name string) (int, error) {
	found, err := c.topic(ctx, name)
	if err != nil {
		return 0, err
	}
	return len(found.Partitions), nil
}

// topic returns a topic from the metadata, which is at most a second old.
func (c *Client) topic(ctx context.Context, name string) (kafkago.Topic, error) {
	if err := c.unlisted(name); err != nil {
		return kafkago.Topic{}, err
	}
	metadata, err := c.metadata(ctx, name)
	if err != nil {
		return kafkago.Topic{}, err
	}
	found := metadata.Topics[0]
	if found.Error != nil {
		return found, fmt.Errorf("topic %s: %w", name, c.rightless(c.cause(ctx, found.Error), "Describe", name))
	}
	return found, nil
}

// unlisted returns the error for a topic that is not among Config.Topics, about which nothing is known.
func (c *Client) unlisted(name string) error {
	if len(c.config.Topics) == 0 || slices.Contains(c.config.Topics, name) {
		return nil
	}
	return topic.Errorf(topic.ErrOther, "this client was opened without topic %s", name)
}

// metadata returns the latest metadata of kafka-go's transport, or the true reason why there is none yet.
func (c *Client) metadata(ctx context.Context, topics ...string) (*kafkago.MetadataResponse, error) {
	response, err := c.kafka.Metadata(ctx, &kafkago.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, c.cause(ctx, err)
	}
	return response, nil
}
