package topics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/kafka"
	"weir/pkg/rule"
)

// Headers of records are fields: the last of several, in plain and in packed batches, with a group and without. Those that are
// missing, null or too long are no field, also if the line has one of that name.
func TestHeadersAreFields(t *testing.T) {
	for name, alone := range map[string]bool{"group": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, config kafka.Config) {
				b := newBench(t, config, 1)
				if alone {
					b.source.Kafka.Group, b.folder = "", t.TempDir()
				}
				set, err := rule.FromLimits([]string{"10/min"}, "tenant")
				if err != nil {
					t.Fatal(err)
				}
				b.rules, b.source.Format = set, "json"
				b.source.Outer, b.source.Kafka.Headers = []string{"host", "tenant"}, []string{"x-host", "x-tenant"}
				b.make()
				type header = kafkago.Header
				tenant := func(text string) header { return header{Key: "x-tenant", Value: []byte(text)} }
				all := [][]header{
					{tenant("shop")},
					{tenant("first"), {Key: "x-host", Value: []byte("a.example")}, tenant("shop")},
					{{Key: "x-other", Value: []byte("x")}},
					{{Key: "X-Tenant", Value: []byte("x")}},
					{tenant(strings.Repeat("x", longestHeader+1))},
					{tenant("evil\n\"}"), tenant("")},
					nil,
					{tenant("last")},
				}
				transport := &kafkago.Transport{}
				defer transport.CloseIdleConnections()
				client := kafkago.Client{Addr: kafkago.TCP(b.config.Brokers...), Transport: transport}
				for _, compression := range []kafkago.Compression{0, kafkago.Gzip, kafkago.Zstd} {
					var records []kafkago.Record
					for i, headers := range all {
						line := fmt.Sprintf(`{"time":"2026-03-03T08:00:%02dZ","ip":"203.0.113.7","tenant":"forged","path":"/%d"}`, i, i)
						records = append(records, kafkago.Record{Time: time.Now(), Value: kafkago.NewBytes([]byte(line)), Headers: headers})
					}
					if _, err := client.Produce(b.within(time.Minute), &kafkago.ProduceRequest{Topic: b.topic, RequiredAcks: kafkago.RequireAll,
						Records: kafkago.NewRecordReader(records...), Compression: compression}); err != nil {
						t.Fatal(err)
					}
				}
				b.want = map[string]int64{"per-tenant shop": 6, "per-tenant last": 3}
				c := b.read()
				settled(t, c)
				if n := c.Status().Sources[0].Uncounted["key"]; n != 15 {
					t.Errorf("%d requests have no tenant, want 15", n)
				}
			})
		})
	}
}
