package collector

import (
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/kafka"
)

// What is committed of another's partition holds ours as one of ours would: for half a minute when it stops, as long
// as it says that it waits for others itself, and not when there is nothing more to read in it.
func TestPartitionsOfOthersAreHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Collector{config: Config{Late: time.Minute * 10 / 9, Logger: testLogger(t)}, hold: newHold(testLogger(t)), metrics: newMetrics(nil)}
		in, err := c.newIntake(SourceConfig{Name: "logs", Format: "combined", Kafka: &KafkaConfig{Group: "g", Topics: []string{"logs"}}})
		if err != nil {
			t.Fatal(err)
		}
		source, err := newKafkaSource(in)
		if err != nil {
			t.Fatal(err)
		}
		k := source.(*kafkaSource)
		ours := k.possess("logs", 0)
		day := time.Now().Add(-24 * time.Hour).UnixMilli()
		hear := func(n kafkaNote) {
			n.Incarnation = "i" + n.Incarnation
			k.hear("logs", []kafka.Commit{{Offset: -1}, n.commit(7, nil)}, nil)
		}
		limit := func(want int64, when string) {
			t.Helper()
			if got := ours.member.newest(); got != want {
				t.Errorf("%s: the limit is %d, want %d", when, got, want)
			}
		}
		free := int64(1<<63 - 1)
		k.hear("logs", []kafka.Commit{{Offset: -1}, {Offset: -1}}, nil)
		limit(noTime, "of one that nothing is heard of")
		hear(kafkaNote{Reached: day})
		limit(day+60_000, "of one that goes on")
		time.Sleep(stallAfter)
		hear(kafkaNote{Reached: day})
		limit(free, "of one that has stopped")
		hear(kafkaNote{Reached: day + 1})
		limit(day+60_001, "of one that goes on again")
		for beat := range int64(10) {
			time.Sleep(waitsBeat * time.Second)
			hear(kafkaNote{Reached: day + 1, Waits: 1 + beat})
			limit(day+60_001, "of one that waits")
		}
		for range 70 {
			time.Sleep(time.Second)
			hear(kafkaNote{Reached: day + 1, Waits: 10})
			ours.member.newest()
		}
		limit(free, "of one that says no longer that it waits")
		hear(kafkaNote{Reached: day + 2})
		limit(day+60_002, "of one that is back")
		hear(kafkaNote{Reached: day + 2, End: true})
		limit(free, "of one that is read to its end")
		hear(kafkaNote{Reached: day, Incarnation: "another"})
		limit(day+60_000, "of one that begins anew")
		for range 60 {
			time.Sleep(time.Second)
			k.hear("logs", nil, kafka.ErrUnreachable)
		}
		limit(day+60_000, "while nothing can be heard")
		k.leave()
		limit(free, "when the source has ended")
	})
}
