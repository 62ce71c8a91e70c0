package enforcer

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"weir/internal/topic"
	"weir/pkg/blocklist"
)

// A parcel has the orders of one request in the form for Kafka.
type parcel struct {
	Orders []message `json:"orders"` // of the topic blocklist
	Events []message `json:"events"`
	Hits   []message `json:"hits,omitempty"` // commands for the aggregators

	number  int64 // of its file
	refused atomic.Bool
	done    chan struct{} // closed when Kafka has all of it, or has refused some permanently
}

// A message is one record to be written.
type message struct {
	Partition int    `json:"partition"`
	Key       []byte `json:"key,omitempty"`
	Value     []byte `json:"value"`
}

// sealed is a parcel with a checksum.
type sealed struct {
	Parcel   json.RawMessage `json:"parcel"`
	Checksum uint64          `json:"checksum"`
}

// marshal returns the contents of a parcel's file.
func (p *parcel) marshal() ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(sealed{text, xxhash.Sum64(text)})
}

var errDamaged = errors.New("damaged")

// unmarshalParcel reads a file. It returns an error unless all of it is as it was written.
func unmarshalParcel(data []byte) (*parcel, error) {
	var s sealed
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if xxhash.Sum64(s.Parcel) != s.Checksum {
		return nil, errDamaged
	}
	p := &parcel{}
	if err := json.Unmarshal(s.Parcel, p); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return p, nil
}

// orders returns the orders of a parcel.
func (p *parcel) orders() ([]*blocklist.Order, error) {
	var orders []*blocklist.Order
	for _, m := range p.Orders {
		record, err := blocklist.DecodeRecord(m.Key, m.Value)
		if err != nil {
			return nil, err
		}
		if record.Order != nil {
			orders = append(orders, record.Order)
		}
	}
	return orders, nil
}

// kafkaMessages returns a topic's messages; done is called for each with its result.
func kafkaMessages(of []message, done func(error)) []topic.Message {
	messages := make([]topic.Message, len(of))
	for i, m := range of {
		messages[i] = topic.Message{Partition: m.Partition, Key: m.Key, Value: m.Value, Done: func(_ int64, err error) { done(err) }}
	}
	return messages
}
