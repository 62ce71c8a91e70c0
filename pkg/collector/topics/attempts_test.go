package topics

import (
	"fmt"
	"testing"

	"weir/internal/kafka"
	"weir/internal/topic"
	"weir/pkg/attempts"
	"weir/pkg/rule"
)

// attempt is a message with an attempt that was refused.
func attempt(from string, sequence int) topic.Message {
	r := attempts.Record{Kind: attempts.Attempt, Time: 1_772_524_800_000 + attempts.Instant(sequence), From: from, Order: uint64(sequence), Takes: []attempts.Take{
		{Rule: "quota", Key: fmt.Sprintf("203.0.113.%d", sequence%7), Cost: 1, Verdict: attempts.Refused, Limit: "5/min"},
		{Rule: "other", Key: "alice", Cost: 1, Verdict: attempts.Other, Limit: "5/min"},
	}}
	return topic.Message{Value: attempts.AppendSequence(r.Append(nil), uint64(sequence))}
}

// An attempt that a producer has written twice counts once, although the collector is stopped or killed between the two.
func TestAnAttemptThatIsWrittenTwiceCountsOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, config kafka.Config) {
		b := newBench(t, config, 1)
		set, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: quota, key: ip, limits: [5/min], inline: true, block: {after: 3, within: 1m}}]"))
		if err != nil {
			t.Fatal(err)
		}
		b.rules, b.source.Format, b.source.Refusals = set, "attempts", true
		b.make()
		refused := func(from string, first, last int, again bool) {
			var messages []topic.Message
			for n := first; n <= last; n++ {
				if messages = append(messages, attempt(from, n)); !again {
					b.want[fmt.Sprintf("quota 203.0.113.%d", n%7)]++
				}
			}
			b.write(messages...)
		}

		refused("a", 1, 100, false)
		refused("a", 60, 100, true)
		refused("b", 1, 50, false)
		c := b.read()
		c.stop()

		refused("a", 40, 100, true)
		refused("b", 51, 80, false)
		c = b.read()
		b.sink.Set(func() { b.sink.Mute = true })
		refused("b", 60, 80, true)
		refused("b", 81, 120, false)
		b.sink.Await(t, b.want)
		c.kill(b.sink)
		b.sink.Unmute()

		refused("b", 70, 120, true)
		refused("a", 90, 130, true)
		for n := 101; n <= 130; n++ { // of these only the first 100 were there
			b.want[fmt.Sprintf("quota 203.0.113.%d", n%7)]++
		}
		b.read()
	})
}
