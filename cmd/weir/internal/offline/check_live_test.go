package offline

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
	"weir/internal/kafka/kafkatest"
	"weir/internal/store/redis/redistest"
	"weir/internal/topic"
	"weir/test/running"
)

// wantAsked checks the live system, and requires lines that begin with these words.
func wantAsked(t *testing.T, settings *config.Config, want ...string) {
	t.Helper()
	var got []string
	for _, one := range askLive(t.Context(), settings) {
		got = append(got, fmt.Sprintf("%s %t %s", one.Thing, one.Holds, one.What))
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.Contains(got[i], want[i]) {
			t.Fatalf("line %d: got\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Topics may be as configured, missing, or different; and hits may be deleted earlier than a rule looks back.
func TestLiveTopics(t *testing.T) {
	const fixed = "\nkafka: {hits: {partitions: 16}, events: {partitions: 4}}"
	folder := running.Folder(t)
	embeddedIn := settingsWith(t, "data: "+folder+fixed)
	wantAsked(t, embeddedIn, "data true", "store true "+folder+"/store: will be made", "kafka true no kafka.brokers; no process runs on Weir's own topics in "+folder+"/store: will be made")

	former := filepath.Join(embeddedIn.BrokerFolder(), "partitions")
	if err := os.MkdirAll(former, 0o700); err != nil {
		t.Fatal(err)
	}
	wantAsked(t, embeddedIn, "data true", "store true", "kafka false "+folder+"/broker has the topics of a version before")
	if err := os.Remove(former); err != nil {
		t.Fatal(err)
	}

	b, err := running.StartTopics(folder, true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := running.Within(t, time.Minute)
	hits, list := daemon.HitsTopic(embeddedIn), daemon.BlocklistTopic(embeddedIn)
	if err := b.EnsureTopics(ctx, hits, list); err != nil {
		t.Fatal(err)
	}
	wantAsked(t, embeddedIn, "data true", "store true",
		"kafka true no kafka.brokers; a process runs on Weir's own topics in "+folder+"/store",
		"topic weir.hits true 16 partitions, cleanup.policy=delete, retention.ms=172800000",
		"topic weir.blocklist true 1 partition, cleanup.policy=compact",
		"topic weir.events true does not exist; the first part that needs it creates it, with 4 partitions",
		"topic weir.evidence true does not exist")
	wantAsked(t, settingsWith(t, "data: "+folder+"\nkafka: {create: false, hits: {partitions: 8}, events: {partitions: 4}}"), "data", "store", "kafka true",
		"topic weir.hits false topic weir.hits has 16 partitions and not 8", "topic weir.blocklist true",
		"topic weir.events true does not exist", "topic weir.evidence true does not exist")
	wantAsked(t, settingsWith(t, "data: "+folder+"\nkafka: {hits: {partitions: 16, retention: 50h}}"), "data", "store", "kafka true",
		"topic weir.hits true 16 partitions, cleanup.policy=delete, retention.ms=180000000", "", "", "")

	weekly := settingsWith(t, "data: "+folder+fixed)
	weekly.RuleSet.Rules[0].Limits[0].Per, weekly.RuleSet.Rules[0].Limits[0].Text = 7*24*time.Hour, "10/w"
	wantAsked(t, weekly, "data", "store", "kafka true", "topic weir.hits false keeps hits for 2d, and rule per-ip has the limit 10/w", "", "", "")
}

// A topic whose max.message.bytes is low delays the batches that are larger.
func TestLiveTopicTakesSmallRecords(t *testing.T) {
	for limit, want := range map[string]string{
		"100000":  "takes records of at most 100000 bytes, and larger ones wait: set max.message.bytes=1048588",
		"1048588": "<nil>",
		"":        "<nil>",
	} {
		if got := fmt.Sprint(takes(map[string]string{"max.message.bytes": limit})); got != want {
			t.Errorf("%q: %s", limit, got)
		}
	}
}

// Topics of sources are looked at in Kafka.
func TestLiveSourceTopics(t *testing.T) {
	broker, err := embedded.Open(embedded.Config{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	client := kafkatest.Client(t, kafka.Config{Brokers: []string{broker.Address()}, Create: true})
	if err := client.EnsureTopics(running.Within(t, time.Minute), topic.Topic{Name: "logs", Partitions: 3},
		topic.Topic{Name: "tables", Partitions: 1, Settings: map[string]string{"cleanup.policy": "compact"}}); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("data: %s\nkafka: {brokers: [%q]}\ncollector: {sources: [{kafka: [logs, others, tables]}]}", t.TempDir(), broker.Address())
	wantAsked(t, settingsWith(t, text), "data true", "store true", "kafka true "+broker.Address()+": 1 broker",
		"topic weir.hits true does not exist", "topic weir.blocklist true does not exist", "topic weir.events true does not exist",
		"topic weir.evidence true does not exist",
		"source kafka-1 true topic logs: 3 partitions, 0 records",
		"source kafka-1 false topic others",
		"source kafka-1 false topic tables has cleanup.policy=compact: Kafka deletes its records although they are not old")

	hits := daemon.HitsTopic(settingsWith(t, text))
	if err := client.EnsureTopics(running.Within(t, time.Minute), hits); err != nil {
		t.Fatal(err)
	}
	differs := fmt.Sprintf("data: %s\nkafka: {brokers: [%q], create: false, hits: {retention: 50h}}", t.TempDir(), broker.Address())
	wantAsked(t, settingsWith(t, differs), "data", "store", "kafka true",
		"topic weir.hits false keeps records for 2d, and parts go by 2d2h: set retention.ms=180000000",
		"topic weir.blocklist false topic weir.blocklist does not exist; make it: kafka-topics.sh", "topic weir.events false", "topic weir.evidence false")
}

// When Kafka does not answer, its topics are not checked.
func TestLiveKafkaUnreachable(t *testing.T) {
	settings := settingsWith(t, "data: "+t.TempDir()+"\nkafka: {brokers: ['127.0.0.1:1']}")
	wantAsked(t, settings, "data true", "store true", "kafka false asking Kafka for its brokers: broker 127.0.0.1:1 cannot be reached")
}

// freeUDP returns an address that is not in use, on a loopback address that no other test uses.
func freeUDP(t *testing.T) string {
	conn, err := net.ListenPacket("udp", "127.0.0.80:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.LocalAddr().String()
}

func TestLiveSources(t *testing.T) {
	folder := t.TempDir()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	free := freeUDP(t)
	for _, name := range []string{"access.log", "other.log", "plain"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := fmt.Sprintf(`data: %[1]s/plain/data
collector:
  listen: 127.0.0.1:1
  sources:
    - {file: ["%[1]s/*.log", %[1]s/missing.log, "%[1]s/*.txt", %[1]s]}
    - {http: %[2]s}
    - {syslog: "udp://%[3]s"}
    - {syslog: "unix://%[1]s/no/such/log"}
`, folder, busy.Addr(), free)
	sources := []string{
		"source file-1 true " + folder + "/*.log: 2 files, can be read", "missing.log: no such file", "source file-1 false " + folder + "/*.txt: no such file",
		"source file-1 false " + folder + " is not a regular file", "source http-1 false listen tcp", "source syslog-1 true udp " + free + ": can be listened on",
		"source syslog-2 true " + folder + "/no/such: will be made at the first start",
	}
	wantAsked(t, settingsWith(t, text), append([]string{"data false stat " + folder + "/plain/data: not a directory", "store false", "kafka false"}, sources...)...)

	collector := running.NewPart(t, `{"caught_up": false}`)
	text = strings.Replace(text, "listen: 127.0.0.1:1", "listen: "+collector.Address(), 1)
	sources[4] = "source http-1 true tcp " + busy.Addr().String() + ": in use by the collector, which runs"
	wantAsked(t, settingsWith(t, text), append([]string{"", "", ""}, sources...)...)
}

func TestLiveRedis(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	settings := settingsWith(t, "data: "+running.Folder(t)+"\nstore: {redis: 'redis://"+server.Addr+"/0'}")
	wantAsked(t, settings, "data", "store false Redis at "+server.Addr+" drops keys when it is full (maxmemory-policy allkeys-lru)", "kafka true")
	if err := server.Client.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	wantAsked(t, settings, "data", "store true redis://"+server.Addr+"/0: answers, and drops no keys", "kafka true")
	if size := server.Client.DBSize(t.Context()).Val(); size != 0 {
		t.Errorf("asking has left %d keys", size)
	}
	server.Kill()
	wantAsked(t, settings, "data", "store false", "kafka true")
}

// A Redis without the command AUTH answers with what it got.
func TestLiveRedisThatRepeatsThePassword(t *testing.T) {
	server := redistest.Start(t, "--rename-command", "AUTH", "", "--rename-command", "HELLO", "")
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("hush-hush-hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := settingsWith(t, fmt.Sprintf("inline: {store: {redis: 'redis://%s', password_file: %q}}", server.Addr, password))
	for _, one := range askLive(t.Context(), settings) {
		if strings.Contains(one.What, "hush-hush") {
			t.Errorf("%+v", one)
		}
		if one.Thing == "inline.store" && !strings.Contains(one.What, "args beginning with: '***'") {
			t.Errorf("%+v", one)
		}
	}
}

// settingsWith returns a configuration with one rule and the given settings.
func settingsWith(t *testing.T, text string) *config.Config {
	t.Helper()
	text += "\nrules: [{name: per-ip, key: ip, limits: [10/min]}]\n"
	settings, _, err := config.Read([]byte(text), config.Options{File: filepath.Join(t.TempDir(), "weir.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

// A topic of another Kafka is asked for with the source's own user, who may do nothing but describe and read it.
func TestLiveTopicOfAnotherKafka(t *testing.T) {
	cluster := kafkatest.Real(t, kafkatest.Options{Secure: true, Guarded: true})
	client := kafkatest.Client(t, kafka.Config{Brokers: cluster.Addresses(), Create: true})
	if err := client.EnsureTopics(running.Within(t, time.Minute), topic.Topic{Name: "logs", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	producer := client.Appender(topic.AppenderConfig{Topic: "logs", Partitions: 2})
	if err := producer.Send(t.Context(), topic.Message{Partition: 1, Value: []byte("a line")}); err != nil {
		t.Fatal(err)
	}
	if err := producer.Close(running.Within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}

	folder := running.Folder(t)
	password := filepath.Join(folder, "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(password, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(kafkatest.Password)
	settings := func(topic string) *config.Config {
		return settingsWith(t, fmt.Sprintf(
			"data: %s\ncollector: {sources: [{name: shop, kafka: [%s], brokers: [%s], tls: {ca: %q}, sasl: {mechanism: plain, user: %s, password_file: %q}, commit: local}]}",
			folder, topic, cluster.Listener("SASLTLS")[0], cluster.Certificates.Authority, kafkatest.User, password))
	}
	want := func(topic string, source string) {
		t.Helper()
		wantAsked(t, settings(topic), "data true", "store true", "kafka true no kafka.brokers", "source shop "+source,
			"collector.sources.0.tls.ca true", "collector.sources.0.sasl.password_file true")
	}

	want("logs", `false topic logs: user "weir" may not do this: Topic Authorization Failed; an administrator permits it: kafka-acls.sh`)
	cluster.Permit(t, "logs", "Describe", true)
	want("logs", `false fetching logs/1: user "weir" may not do this`)
	cluster.Permit(t, "logs", "Read", true)
	want("logs", "true topic logs: 2 partitions, 1 record")
	cluster.Permit(t, "lags", "Describe", true)
	want("lags", "false topic lags: the topic does not exist; correct the name, or create the topic")
	write("a guess")
	want("logs", `false the brokers refuse user "weir": wrong password, or no such user for plain`)
}
