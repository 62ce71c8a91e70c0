package whatif_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/pkg/enforcer/whatif"
	"weir/test/running"
	"weir/test/wait"
)

// inKafka is a stand whose topic is in a real Kafka, under a name of its own.
func inKafka(t *testing.T, brokers []string, name string) *stand {
	t.Helper()
	s := newStand(t)
	client := kafkatest.Client(t, kafka.Config{Brokers: brokers, Create: true})
	var err error
	if s.topic, err = running.MakeTopic(t.Context(), client, name, 4); err != nil {
		t.Fatal(err)
	}
	s.config.Log, s.config.Topic = client, name
	return s
}

// remake deletes the topic, and makes it again.
func (s *stand) remake(brokers []string) {
	s.t.Helper()
	admin := &kafkago.Client{Addr: kafkago.TCP(brokers...)}
	answer, err := admin.DeleteTopics(s.t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{s.topic.Name}})
	if err != nil || answer.Errors[s.topic.Name] != nil {
		s.t.Fatal(err, answer)
	}
	wait.Until(s.t, "the topic is made again", func() bool {
		made, err := admin.CreateTopics(s.t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{Topic: s.topic.Name, NumPartitions: 4, ReplicationFactor: 1}}})
		return err == nil && made.Errors[s.topic.Name] == nil
	})
	wait.Until(s.t, "its partitions can be used", func() bool {
		spans, err := s.config.Log.Offsets(s.t.Context(), s.topic.Name)
		return err == nil && len(spans) == 4 && spans[3].End == 0
	})
}

// many are requests of keys in all partitions.
func many() (all []request) {
	for key := range 40 {
		all = append(all, every(fmt.Sprintf("203.0.113.%d", key), 10+key, 1000)...)
	}
	return all
}

func TestOtherLimitsInKafka(t *testing.T) {
	brokers := kafkatest.Real(t, kafkatest.Options{}).Addresses()

	s, local := inKafka(t, brokers, "hits.same"), newStand(t)
	for range 3 {
		s.send(many()...)
		local.send(many()...)
	}
	got, want := s.ask("per-ip", "20/min"), local.ask("per-ip", "20/min")
	got.Since, want.Since = time.Time{}, time.Time{}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || got.Read != 4 || got.Keys != 40 {
		t.Errorf("in Kafka %+v\nin a folder %+v", got, want)
	}

	// The topic is made again while a partition is counted.
	for _, c := range []struct {
		name    string
		turn    int // in which this happens
		sent    int // times into the new topic
		read    int
		refusal string
	}{
		{"nothing in the new one", 1, 0, 0, "the hits were deleted while they were counted: ask again"},
		{"less in the new one", 1, 1, 0, "the hits were deleted while they were counted: ask again"},
		{"more in the new one", 1, 4, 0, "the hits were deleted while they were counted: ask again"},
		{"after the first partition", 2, 4, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := inKafka(t, brokers, strings.ReplaceAll("hits."+c.name, " ", "-"))
			for range 3 {
				s.send(many()...)
			}
			q, turns := s.question("per-ip", "20/min"), 0
			q.Turn = func() func() {
				if turns++; turns == c.turn {
					s.remake(brokers)
					for range c.sent {
						s.send(many()...)
					}
				}
				return func() {}
			}
			ctx, cancel := context.WithTimeout(t.Context(), whatif.Patience)
			defer cancel()
			answer, err := whatif.Ask(ctx, s.config, q)
			switch {
			case c.refusal != "":
				if err == nil || err.Error() != c.refusal {
					t.Errorf("%v, %+v", err, answer)
				}
			case err != nil || answer.Read != c.read || !strings.HasPrefix(answer.Notes[0], "Only 1 of 4 partitions were counted, because the hits were deleted meanwhile: "):
				t.Errorf("%v, %+v", err, answer)
			}
		})
	}
}
