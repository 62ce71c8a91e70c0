// Package kafka is a thin layer over kafka-go: one place for addresses, TLS, SASL, time-outs and metadata, and
// for saying truly what is wrong.
//
// A Client opens connections when they are needed. Through it one makes or checks topics (EnsureTopics), sends
// records (Producer), reads a partition (Reader), shares partitions with others (Group), and asks for offsets.
// The same calls go to Apache Kafka and to the broker in our own process (package embedded).
//
// What always holds. A Producer keeps the order of each partition, has one request in flight per partition and
// answers every record it took exactly once, in order. A Reader returns every record that the log still has, in
// order, on compacted logs too. A Group gives a partition up only after its owner's function has returned. A
// record may be in the log twice: when a broker's answer is lost, it is sent again.
//
// Errors are told in one line that names the true cause, for kafka-go calls a wrong password, a bad certificate
// and an absent broker all "topic not found". errors.Is tells their kinds (ErrUnreachable, ErrLogin, ErrNoTopic
// …), and ErrPermanent those that repeating cannot mend; all else is transient, and whoever meets it here
// pauses, says so at most once a minute with its count, counts it, and tries again.
//
// All methods of a Client, a Producer and a Group may be called at the same time; a Reader is one goroutine's.
// Close ends all goroutines and waits for them. Memory: a Producer holds the bytes it is configured for,
// and those of one more call at most; a Reader an answer, of which it keeps at most twice its MaxBytes for the next one, and
// what compressed batches in it unpack to.
//
// Not done: transactions and idempotent producing (sequences in our batches make repeats harmless), reading only
// what is committed, record headers, compression.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
)

// requestTimeout bounds every request. kafka-go cuts what brokers are told to wait to half of it.
const requestTimeout = 5 * time.Second

// idleTimeout is how long a connection that nobody needs is kept: less than brokers, and what lies between, allow.
const idleTimeout = 3 * time.Minute

// clientID is what brokers know us by, in their logs and quotas.
const clientID = "weir"

// Embedded stands among Config.Brokers for the broker in our own process.
const Embedded = "embedded"

// Config says where Kafka is and how to speak to it.
type Config struct {
	Brokers []string // host:port of some brokers, the others are learnt from them
	TLS     *TLS     // nil is no TLS
	SASL    *SASL    // nil is no login
	Prefix  string   // stands before the names of our own topics and groups
	Create  bool     // EnsureTopics makes what is missing, else it says what has to be made

	// Topics are all that the client may be asked about; none stands for all that the cluster has, whose
	// metadata is then fetched every second.
	Topics []string

	// Dial makes connections; nil is TCP. The embedded broker brings its own.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Logger  *slog.Logger          // nil is silence
	Metrics prometheus.Registerer // nil is none; several clients may share one
}

// Name is the full name of a topic or group of ours: the prefix and the word.
func (c Config) Name(word string) string { return c.Prefix + word }

// Validate gives all that is wrong with the configuration, its files included.
func (c Config) Validate() error {
	var faults []error
	if len(c.Brokers) == 0 {
		faults = append(faults, errors.New("brokers: none are named; host:port of one or more is wanted"))
	}

	for _, broker := range c.Brokers {
		if fault := c.address(broker); fault != nil {
			faults = append(faults, fault)
		}
	}

	if c.TLS != nil {
		if _, err := c.TLS.config(); err != nil {
			faults = append(faults, err)
		}
	}

	if c.SASL != nil {
		if _, err := c.SASL.mechanism(); err != nil {
			faults = append(faults, err)
		}
	}

	return errors.Join(faults...)
}

func (c Config) address(broker string) error {
	if broker == Embedded {
		if c.Dial == nil || len(c.Brokers) > 1 {
			return errors.New("brokers: embedded stands alone, and only in the process that runs the embedded broker; any other process needs kafka.brokers: [host:9092]")
		}
		return nil
	}
	if host, port, err := net.SplitHostPort(broker); err != nil || host == "" || port == "" {
		return fmt.Errorf("brokers: %q is not host:port", broker)
	}
	return nil
}

func (c Config) embedded() bool { return slices.Contains(c.Brokers, Embedded) }

// A Client speaks to one cluster.
type Client struct {
	config    Config
	dialer    *dialer
	transport *kafkago.Transport
	kafka     *kafkago.Client
	faults    *faults
	login     sasl.Mechanism // nil is none
	running   context.Context
	end       context.CancelFunc
}

// Open checks the configuration. Connections are made when they are needed; Close closes them.
func Open(config Config) (*Client, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}

	c := &Client{config: config, dialer: newDialer(config), faults: newFaults(config.Logger, config.Metrics)}
	if config.SASL != nil {
		c.login = &login{config: *config.SASL}
	}

	c.running, c.end = context.WithCancel(context.Background())
	c.transport = c.newTransport()
	c.kafka = &kafkago.Client{Addr: kafkago.TCP(config.Brokers...), Timeout: requestTimeout, Transport: c.transport}
	return c, nil
}

func (c *Client) newTransport() *kafkago.Transport {
	return &kafkago.Transport{
		Dial:           c.dialer.dial,
		DialTimeout:    requestTimeout,
		IdleTimeout:    idleTimeout,
		MetadataTTL:    time.Second,
		MetadataTopics: c.config.Topics,
		ClientID:       clientID,
		SASL:           c.login,
		Context:        c.running,
	}
}

// Close closes all connections and waits until those who read them have ended. Producers, readers and groups
// of the client are closed before. Calls that come later fail with ErrClosed.
func (c *Client) Close() {
	c.end()
	c.transport.CloseIdleConnections()
	c.dialer.close()
}

// A Cluster is what the brokers say of themselves.
type Cluster struct {
	ID      string
	Brokers []string // host:port
	Topics  []string // without Kafka's own; of Config.Topics those that exist
}

// Cluster asks who is there. It is the cheapest way to see whether Kafka can be reached.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	metadata, err := c.metadata(ctx)
	if err != nil {
		return Cluster{}, fmt.Errorf("asking Kafka for its brokers: %w", err)
	}

	cluster := Cluster{ID: metadata.ClusterID}
	for _, broker := range metadata.Brokers {
		cluster.Brokers = append(cluster.Brokers, net.JoinHostPort(broker.Host, fmt.Sprint(broker.Port)))
	}

	for _, topic := range metadata.Topics {
		if topic.Error == nil && !topic.Internal && !strings.HasPrefix(topic.Name, "__") {
			cluster.Topics = append(cluster.Topics, topic.Name)
		}
	}

	return cluster, nil
}

// Partitions is how many partitions a topic has. It costs no request.
func (c *Client) Partitions(ctx context.Context, topic string) (int, error) {
	found, err := c.topic(ctx, topic)
	if err != nil {
		return 0, err
	}
	return len(found.Partitions), nil
}

// topic is what the metadata, at most a second old, say of a topic.
func (c *Client) topic(ctx context.Context, name string) (kafkago.Topic, error) {
	if err := c.unlisted(name); err != nil {
		return kafkago.Topic{}, err
	}
	metadata, err := c.metadata(ctx, name)
	if err != nil {
		return kafkago.Topic{}, err
	}
	topic := metadata.Topics[0]
	if topic.Error != nil {
		return topic, fmt.Errorf("topic %s: %w", name, c.cause(ctx, topic.Error))
	}
	return topic, nil
}

// unlisted is the error of asking for a topic that is not among Config.Topics: nothing is known of it.
func (c *Client) unlisted(name string) error {
	if len(c.config.Topics) == 0 || slices.Contains(c.config.Topics, name) {
		return nil
	}
	return faultf(ErrOther, "this client was opened without topic %s", name)
}

// metadata is what kafka-go's transport has last heard from the brokers, or the true reason why it has heard
// nothing yet.
func (c *Client) metadata(ctx context.Context, topics ...string) (*kafkago.MetadataResponse, error) {
	response, err := c.kafka.Metadata(ctx, &kafkago.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, c.cause(ctx, err)
	}
	return response, nil
}
