package topics

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/test/real"
	"weir/test/wait"
)

// A user with no right but to describe and read a topic reads it, and the cluster's topics and groups stay as they were.
// The status names each other mistake and its remedy, and reading begins once it is corrected.
func TestATopicThatMayOnlyBeRead(t *testing.T) {
	real.Long(t)
	t.Parallel()
	cluster := kafkatest.Real(t, kafkatest.Options{Secure: true, Guarded: true})
	b := newAloneBench(t, kafka.Config{Brokers: cluster.Addresses(), Create: true}, 3).filled(200)
	password := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(password, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a guess")
	b.config = kafka.Config{Topics: b.source.Kafka.Topics, Brokers: cluster.Listener("SASLTLS"), Section: "collector.sources.0", TLS: &kafka.TLS{CA: cluster.Certificates.Authority},
		SASL: &kafka.SASL{Mechanism: "scram-sha-512", User: kafkatest.User, PasswordFile: password}}
	before := cluster.Content(t)
	c := b.start(b.sink)
	says := func(text string) {
		t.Helper()
		wait.Until(t, text, func() bool {
			status := c.Status()
			return strings.Contains(status.Sources[0].Error, text) && !status.CaughtUp
		})
	}

	says(`the brokers refuse user "weir": wrong password, or no such user for scram-sha-512`)
	write(kafkatest.Password)
	says(`; an administrator permits it: kafka-acls.sh --bootstrap-server ` + b.config.Brokers[0] + ` --add --allow-principal 'User:weir' --operation Describe --topic ` + b.topic)
	cluster.Permit(t, b.topic, "Describe", true)
	says(`user "weir" may not do this: Topic Authorization Failed; an administrator permits it: kafka-acls.sh --bootstrap-server ` + b.config.Brokers[0] +
		` --add --allow-principal 'User:weir' --operation Read --topic ` + b.topic)
	cluster.Permit(t, b.topic, "Read", true)
	b.sink.Await(t, b.want)
	c.settle(t)
	wait.Until(t, "no error", func() bool { return c.Status().Sources[0].Error == "" })
	if after := cluster.Content(t); after != before || !strings.Contains(before, b.topic) || strings.Contains(before, "group") {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}

	// It goes on where it was after a stop, and after its right was taken away for a while.
	c.stop()
	b.produce(50)
	c = b.read()
	cluster.Permit(t, b.topic, "Read", false)
	wait.Until(t, "the refusal", func() bool { return strings.Contains(c.Status().Sources[0].Error, "--operation Read") })
	b.produce(50)
	says("--operation Read")
	wait.Until(t, "the lag", func() bool {
		lag := int64(0)
		for _, log := range c.Status().Sources[0].Logs {
			lag += log.Lag
		}
		return lag > 0 // the last fetches may have begun before
	})
	cluster.Permit(t, b.topic, "Read", true)
	b.sink.Await(t, b.want)
	c.settle(t)
	c.stop()
	if said := c.said.String(); strings.Contains(said, kafkatest.Password) || strings.Contains(said, "a guess") {
		t.Error("the password is logged:", said)
	}
}

// A topic that does not exist is not made by looking for it, although the brokers would.
func TestAMissingTopicIsNotMade(t *testing.T) {
	real.Long(t)
	t.Parallel()
	cluster := kafkatest.Real(t, kafkatest.Options{Settings: map[string]string{"auto.create.topics.enable": "true"}})
	b := newAloneBench(t, kafka.Config{Brokers: cluster.Addresses()}, 1)
	c := b.start(b.sink)
	k := c.sources[0].(*alone)
	wait.Until(t, "it to be missing for long", func() bool { return missesOf(k, b.topic) >= goneLooks })
	if content := cluster.Content(t); content != "" {
		t.Error("there is now", content)
	}
	if fault := c.Status().Sources[0].Error; !strings.Contains(fault, "topic "+b.topic+": the topic does not exist; it is read once it exists, and Weir does not make it there: is its name right?") {
		t.Error("the status has", fault)
	}
}

// Brokers that are not there are named.
func TestBrokersThatAreNotThere(t *testing.T) {
	t.Parallel()
	b := newAloneBench(t, embedded(t), 1)
	b.config = kafka.Config{Brokers: []string{"127.0.0.1:1"}}
	c := b.start(b.sink)
	wait.Until(t, "it to be named", func() bool {
		return strings.Contains(c.Status().Sources[0].Error, "broker 127.0.0.1:1 cannot be reached: connection refused")
	})
	if c.Status().CaughtUp {
		t.Error("it has caught up")
	}
}
