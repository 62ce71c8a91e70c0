package kafka

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"

	"weir/internal/topic"
)

// Identity returns the identity of a topic that exists. It is empty when the brokers name no cluster, and has no id with
// brokers that know none (before Kafka 2.8).
func (c *Client) Identity(ctx context.Context, name string) (topic.Identity, error) {
	cluster, err := c.Cluster(ctx)
	if err != nil {
		return "", err
	}
	if cluster.ID == "" {
		return "", nil
	}

	patient, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := c.transport.RoundTrip(patient, c.kafka.Addr, &identify{topic: name})
	if err != nil {
		return "", fmt.Errorf("asking for the id of topic %s: %w", name, c.cause(ctx, err))
	}
	got, ok := response.(*identified)
	switch {
	case !ok:
		return "", fmt.Errorf("asking for the id of topic %s: %w", name, errAnswer)
	case got.code != 0:
		return "", fmt.Errorf("asking for the id of topic %s: %w", name, c.cause(ctx, kafkago.Error(got.code)))
	}
	return topic.Identity(cluster.ID + "/" + name + "/" + got.id), nil
}

// identifyVersion is the first version of the metadata request whose answer has topics' ids. kafka-go knows only earlier
// ones.
const identifyVersion = 10

// mostMetadata bounds an answer about one topic, which also names all brokers.
const mostMetadata = 16 << 20

// An identify asks for a topic's id. It finds out first whether the broker knows the request: others close the connection.
type identify struct{ topic string }

// ApiKey makes it one of kafka-go's messages.
func (*identify) ApiKey() protocol.ApiKey { return protocol.Metadata } //nolint:revive // kafka-go calls it so

// Required states that the request writes itself.
func (*identify) Required(map[protocol.ApiKey]int16) bool { return true }

// An identified is the answer: an id of 32 hexadecimal digits, or none.
type identified struct {
	id   string
	code int16
}

// ApiKey makes it one of kafka-go's messages.
func (*identified) ApiKey() protocol.ApiKey { return protocol.Metadata } //nolint:revive // kafka-go calls it so

// RawExchange sends the request and reads the answer.
func (i *identify) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	message, err := protocol.RoundTrip(rw, 0, correlation, clientID, &apiversions.Request{})
	if err != nil {
		return nil, err
	}
	if !offersIDs(message) {
		return &identified{}, nil
	}
	if _, err := rw.Write(i.request()); err != nil {
		return nil, err
	}

	var size [4]byte
	if _, err := io.ReadFull(rw, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > mostMetadata {
		return nil, fmt.Errorf("%w: %d bytes of metadata", errAnswer, n)
	}
	answer := make([]byte, n)
	if _, err := io.ReadFull(rw, answer); err != nil {
		return nil, err
	}
	return readIdentified(answer)
}

func offersIDs(message protocol.Message) bool {
	versions, ok := message.(*apiversions.Response)
	if !ok {
		return false
	}
	for _, api := range versions.ApiKeys {
		if protocol.ApiKey(api.ApiKey) == protocol.Metadata {
			return api.MinVersion <= identifyVersion && identifyVersion <= api.MaxVersion
		}
	}
	return false
}

// request returns the bytes of the request. It creates no topic.
func (i *identify) request() []byte {
	b := make([]byte, 4, 64+len(i.topic))
	b = binary.BigEndian.AppendUint16(b, uint16(protocol.Metadata))
	b = binary.BigEndian.AppendUint16(b, identifyVersion)
	b = binary.BigEndian.AppendUint32(b, correlation)
	b = binary.BigEndian.AppendUint16(b, uint16(len(clientID)))
	b = append(b, clientID...)
	b = append(b, 0)                   // no tags
	b = append(b, 1+1)                 // one topic
	b = append(b, make([]byte, 16)...) // asked for by its name, not by an id
	b = binary.AppendUvarint(b, uint64(len(i.topic))+1)
	b = append(b, i.topic...)
	b = append(b, 0)       // no tags of the topic
	b = append(b, 0, 0, 0) // create none; no operations of the cluster, and of the topic
	b = append(b, 0)       // no tags
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

var errNoTopicInAnswer = errors.New("the answer has no topic")

// readIdentified reads an answer about one topic, as far as its id.
func readIdentified(b []byte) (*identified, error) {
	in := newWire(b)
	if in.int32() != correlation {
		in.Fail()
	}
	in.tags()
	in.int32() // throttled
	for range in.array() {
		in.int32() // number of the broker
		in.text()  // host
		in.int32() // port
		in.text()  // rack
		in.tags()
	}
	in.text()  // cluster
	in.int32() // controller
	topics := in.array()
	code := in.int16()
	in.text() // name
	id := in.Take(16)
	switch {
	case in.Failed:
		return nil, fmt.Errorf("%w: it ends too early", errAnswer)
	case topics == 0:
		return nil, fmt.Errorf("%w: %w", errAnswer, errNoTopicInAnswer)
	case string(id) == string(make([]byte, 16)): // older than ids, though the broker knows them
		return &identified{code: code}, nil
	}
	return &identified{id: hex.EncodeToString(id), code: code}, nil
}

// array reads the length of an array in the compact form. Each element takes a byte at least.
func (w *wire) array() int {
	n := w.Unsigned()
	if n > uint64(len(w.Left))+1 {
		w.Fail()
	}
	if n == 0 || w.Failed {
		return 0
	}
	return int(n - 1)
}

// text skips a text in the compact form.
func (w *wire) text() {
	if n := w.Unsigned(); n > 1 {
		w.Take(int64(min(n-1, 1<<31)))
	}
}

// tags skips tagged fields.
func (w *wire) tags() {
	for range w.Unsigned() {
		if w.Failed {
			return
		}
		w.Unsigned()
		w.Take(int64(min(w.Unsigned(), 1<<31)))
	}
}
