package topics

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/kafka"
	"weir/pkg/collector/pipeline"
	"weir/test/wait"
)

func TestPatternsAndTopics(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		matches       bool
	}{
		{"access-*", "access-shop", true},
		{"access-*", "access-", true},
		{"access-*", "access", false},
		{"access-*", "my-access-shop", false},
		{"*", "a", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"logs", "logs", true},
		{"logs", "logs2", false},
		{"*", "a/b", false},
		{"*", "a\x1b[31m", false},
		{"*", "a\nb", false},
		{"*", "a*", false},
		{"*", "", false},
		{"*", "ä", false},
		{"*", strings.Repeat("a", 250), false},
		{"*a*a*a*a*a*a*a*b", strings.Repeat("a", 249), false},
	} {
		if is := Matches(c.pattern, c.name); is != c.matches {
			t.Errorf("%s matches %q: %t", c.pattern, c.name, is)
		}
	}
}

func TestPatternsThatOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		is   bool
	}{
		{"a-*", "a-b", true}, {"a-*", "b-*", false}, {"a-*", "*-b", true}, {"*a", "*b", false}, {"*", "x", true}, {"a?", "ab", true},
		{"a?", "abc", false}, {"a", "a", true}, {"a", "b", false}, {"a*c", "ab*", true}, {"?*", "*?", true}, {"a*", "a", true},
	} {
		if Overlap(c.a, c.b) != c.is || Overlap(c.b, c.a) != c.is {
			t.Errorf("%s and %s overlap: want %t", c.a, c.b, c.is)
		}
	}
}

// Of more topics than a source reads by patterns, it keeps reading those that it reads, and names the number of the others.
func TestManyTopicsOfAPattern(t *testing.T) {
	b := newBench(t, kafka.Config{Brokers: []string{"127.0.0.1:1"}}, 1)
	b.source.Kafka.Topics, b.source.Kafka.Without = []string{"own", "a-*"}, []string{"a-hits"}
	k, _ := b.still()
	n := k.names
	exist := []string{"a-hits", "a-zzz", "own", "other", "a-\x00"}
	if err := n.take(slices.Clone(exist)); err != nil || !slices.Equal(n.all(), []string{"own", "a-zzz"}) {
		t.Fatalf("it reads %v, %v", n.all(), err)
	}
	for i := range mostFound + 9 {
		exist = append(exist, fmt.Sprintf("a-%04d", i))
	}
	err := n.take(slices.Clone(exist))
	if err == nil || !strings.Contains(err.Error(), "10 topics are not read") || len(n.all()) != mostFound+1 || n.all()[1] != "a-zzz" {
		t.Fatalf("it reads %d topics, %v", len(n.all()), err)
	}
	for range goneLooks - 1 {
		_ = n.take([]string{"own"})
	}
	if len(n.all()) != mostFound+1 {
		t.Errorf("after %d looks it reads %d topics", goneLooks-1, len(n.all()))
	}
	err = n.take([]string{"own"})
	if err == nil || !strings.Contains(err.Error(), "no topic matches a-*") || !slices.Equal(n.all(), []string{"own"}) {
		t.Errorf("it reads %v, %v", n.all(), err)
	}
}

// Topics that a pattern names are read from their first record when they come later, whatever start states, and deleted ones are
// reported. That is so with a group and without, while the collector runs and while it does not.
func TestTopicsOfAPattern(t *testing.T) {
	for name, alone := range map[string]bool{"group": false, "alone": true} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, config kafka.Config) {
				b := newBench(t, config, 2)
				if alone {
					b.source.Kafka.Group, b.folder = "", t.TempDir()
				}
				base := b.topic
				make := func(number int) {
					b.topic = fmt.Sprintf("%s.%d", base, number)
					b.make()
				}
				b.source.Kafka.Topics, b.source.Kafka.Start = []string{base + ".?"}, pipeline.Start{Latest: true}
				c := b.start(b.sink)
				wait.Until(t, "no topic to match", func() bool { return strings.Contains(c.Status().Sources[0].Error, "no topic matches") })
				make(1)
				b.readMore(20)
				make(2)
				b.readMore(30)
				settled(t, c)
				c.stop()

				make(3)
				b.produce(10)
				c = b.start(b.sink)
				make(4)
				b.readMore(20)
				b.delete()
				wait.Until(t, "the deleted topic to be reported", func() bool { return c.said.Has("a topic is gone") })
				settled(t, c)
				for _, log := range c.Status().Sources[0].Logs {
					if strings.HasPrefix(log.Log, b.topic) {
						t.Errorf("it still reads %s", log.Log)
					}
				}
				make(4)
				b.readMore(20)
			})
		})
	}
}

// settled waits until a collector has caught up, and has no problem.
func settled(t *testing.T, c *running) {
	t.Helper()
	wait.Until(t, "it to have caught up", func() bool {
		status := c.Status()
		return status.CaughtUp && status.Sources[0].Error == ""
	})
}
