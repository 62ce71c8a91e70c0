package topics

import (
	"strings"
	"testing"
	"time"

	"weir/test/wait"
)

// commitThatItWasRead has the group's note say that the topic's partition was read up to an offset, at a time.
func (b *bench) commitThatItWasRead(offset, at int64) kafkaNote {
	b.t.Helper()
	id, err := b.client.NewReader(b.topic, 0, 0).Identity(b.within(time.Minute))
	if err != nil {
		b.t.Fatal(err)
	}
	last := recordID{offset - 1, 1}
	note := kafkaNote{Incarnation: "i", TopicID: string(id[len(id)-32:]), Mark: &last, Last: &last, At: at}
	b.commit(note.commit(offset, nil))
	return note
}

// A topic with the same id whose log ends before the position was cut off, also where the record that would show it was
// cut off too: no record counts twice. If the log has grown again, reading goes on at the position.
func TestALogThatWasCutOffHasTheSameID(t *testing.T) {
	for name, read := range map[string]int64{"and is short": 100, "and has grown again": 20} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, embedded(t), 1).filled(20)
			clear(b.want)
			note := b.commitThatItWasRead(read, 0)
			c := b.start(b.sink)
			wait.Until(t, "it to be logged", func() bool { return c.said.Has("it was cut off") || c.said.Has("its log was cut off") })
			b.readMore(10)
			if text := c.Status().Sources[0].Error; !strings.Contains(text, "cut off") {
				t.Errorf("the status has %q", text)
			}
			c.stop()
			if got, _, err := readNote(b.commits()[0]); err != nil || got.TopicID != note.TopicID || got.Incarnation == "i" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// A log whose disk was lost goes on under its topic's id with an empty one. All its records were written after the last
// one that was read, so they are read, also where there are as many as before.
func TestALogThatBeganAgainHasTheSameID(t *testing.T) {
	for name, read := range map[string]int64{"and is short": 100, "and is long": 10} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, embedded(t), 1).filled(20)
			at := time.Now().Add(-time.Minute).UnixMilli()
			b.commitThatItWasRead(read, at)
			c := b.read()
			b.readMore(10)
			c.stop()
			if got, _, err := readNote(b.commits()[0]); err != nil || got.At <= at {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// The status forgets the faults of partitions that a topic no longer has, because it was made again with fewer.
func TestATopicOfAGroupThatIsMadeAgainWithFewerPartitions(t *testing.T) {
	b := newBench(t, embedded(t), 3).filled(30)
	c := b.read()
	b.delete()
	wait.Until(t, "a fault of the last partition", func() bool { return strings.Contains(c.Status().Sources[0].Error, b.topic+"/2") })
	b.partitions = 1
	b.make()
	b.readMore(20)
	wait.Until(t, "no fault to be left", func() bool { s := c.Status().Sources[0]; return s.Error == "" && s.CaughtUp })
}
