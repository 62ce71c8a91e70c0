package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store/redis/redistest"
	"weir/test/hdfs"
	"weir/test/journals"
	"weir/test/kinesis"
	"weir/test/moto"
	"weir/test/nats"
	"weir/test/rabbit"
	"weir/test/s3"
)

// BenchmarkStreamLatency is BenchmarkLatency for streams: from the entry that breaks a limit, as it is appended, to the
// first check that is refused.
//
//	go test -run '^$' -bench StreamLatency -benchtime 1x -timeout 30m ./test/e2e
func BenchmarkStreamLatency(b *testing.B) {
	for _, of := range []struct {
		name  string
		start func(testing.TB) (source string, log lineLog)
	}{{"journald", journalLog}, {"redis", redisLog}, {"nats", natsLog}, {"amqp", rabbitStream}, {"amqp-queue", rabbitQueue}, {"kinesis", kinesisLog}, {"hdfs-open", openFileLog}, {"sqs", eventsLog}, {"s3", bucketLog}} {
		b.Run(of.name, func(b *testing.B) {
			source, log := of.start(b)
			f := newFleet(b, latencyRules, "")
			f.start(build(b, "weir"), "run", "--set", hotKeys, "--set", "collector.sources=["+source+"]")
			f.ready()
			for b.Loop() {
				f.probeLog(b, log, 1000)
			}
		})
	}
}

// A journalOf is a writer of a journal.
type journalOf struct{ *journals.Writer }

func journalLog(t testing.TB) (source string, log lineLog) {
	folder := t.TempDir()
	return fmt.Sprintf("{journald: {folder: %q, unit: nginx}, format: combined}", folder), journalOf{journals.Start(t, folder, "system")}
}

func (j journalOf) append(lines []byte) error {
	var texts []string
	for line := range strings.Lines(string(lines)) {
		texts = append(texts, strings.TrimSuffix(line, "\n"))
	}
	j.Add(texts)
	return nil
}

// A redisStream is a stream in a Redis.
type redisStream struct{ *goredis.Client }

func redisLog(t testing.TB) (source string, log lineLog) {
	server := redistest.Start(t, "--appendonly", "yes")
	return fmt.Sprintf("{redis_stream: {url: %q, keys: [logs]}, format: combined}", "redis://"+server.Addr), redisStream{server.Client}
}

func (r redisStream) append(lines []byte) error {
	_, err := r.Pipelined(context.Background(), func(p goredis.Pipeliner) error {
		for line := range bytes.Lines(lines) {
			p.XAdd(context.Background(), &goredis.XAddArgs{Stream: "logs", Values: []any{"line", bytes.TrimSuffix(line, []byte("\n"))}})
		}
		return nil
	})
	return err
}

// A natsStream is a stream of NATS JetStream.
type natsStream struct{ jetstream.JetStream }

func natsLog(t testing.TB) (source string, log lineLog) {
	server := nats.Start(t, nats.Unsynced)
	if _, err := server.Client().CreateStream(t.Context(), jetstream.StreamConfig{Name: "logs"}); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{nats: {url: %q, stream: logs}, format: combined}", server.URL), natsStream{server.Client()}
}

func (n natsStream) append(lines []byte) error {
	var faults []error
	for line := range bytes.Lines(lines) {
		_, err := n.PublishAsync("logs", bytes.TrimSuffix(line, []byte("\n")))
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// A rabbitLog is a queue of RabbitMQ.
type rabbitLog struct{ *amqp.Channel }

func rabbitStream(t testing.TB) (source string, log lineLog) { return rabbitOf(t, "stream", "") }

func rabbitQueue(t testing.TB) (source string, log lineLog) {
	return rabbitOf(t, "classic", ", acknowledge: true")
}

func rabbitOf(t testing.TB, kind, more string) (source string, log lineLog) {
	server := rabbit.Start(t, "")
	server.Make("logs", kind)
	conn, err := amqp.Dial(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{amqp: {url: %q, queue: logs%s}, format: combined}", "amqp://"+server.Addr, more), rabbitLog{channel}
}

func (r rabbitLog) append(lines []byte) error {
	var faults []error
	for line := range bytes.Lines(lines) {
		faults = append(faults, r.PublishWithContext(context.Background(), "", "logs", false, false, amqp.Publishing{Body: bytes.TrimSuffix(line, []byte("\n")), DeliveryMode: amqp.Persistent}))
	}
	return errors.Join(faults...)
}

// A shardLog is a stream of Kinesis.
type shardLog struct{ *kinesis.Server }

func kinesisLog(t testing.TB) (source string, log lineLog) {
	server := kinesis.Start(t, 1)
	for key, value := range map[string]string{"AWS_ACCESS_KEY_ID": kinesis.User, "AWS_SECRET_ACCESS_KEY": kinesis.Secret} {
		os.Setenv(key, value) // for the process that is measured
	}
	return fmt.Sprintf("{kinesis: {stream: logs, region: %s, endpoint: %q}, format: combined}", kinesis.Region, server.Endpoint), shardLog{server}
}

func (s shardLog) append(lines []byte) error {
	s.Add(strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n"))
	return nil
}

// An openFile is a file of an HDFS that is being written. Each append is flushed.
type openFile struct {
	mu sync.Mutex
	*hdfs.Writer
}

func openFileLog(t testing.TB) (source string, log lineLog) {
	server := hdfs.Start(t)
	writer := server.NewWriter()
	writer.Create("/logs/access.log")
	return fmt.Sprintf("{hdfs: {url: %q, path: /logs, open: true}, format: combined}", server.URL), &openFile{Writer: writer}
}

func (f *openFile) append(lines []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Write(strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n"))
	return nil
}

// Objects are a bucket where each append is an object.
type objects struct {
	mu      sync.Mutex
	written int
	put     func(key string, body []byte)
}

// A bucket gets fewer objects than a stream gets entries, so others' lines, and those of offenders, come less often.
func (o *objects) pause() time.Duration         { return time.Second }
func (o *objects) probes() (int, time.Duration) { return 120, 500 * time.Millisecond }

func (o *objects) append(lines []byte) error {
	o.mu.Lock()
	o.written++
	key := fmt.Sprintf("web/%06d.log", o.written)
	o.mu.Unlock()
	o.put(key, lines)
	return nil
}

func loginToS3() {
	for key, value := range map[string]string{"AWS_ACCESS_KEY_ID": s3.User, "AWS_SECRET_ACCESS_KEY": s3.Secret} {
		os.Setenv(key, value) // for the process that is measured
	}
}

func bucketLog(t testing.TB) (source string, log lineLog) {
	loginToS3()
	server := s3.Start(t)
	return fmt.Sprintf("{s3: \"s3://logs/web/\", region: %s, endpoint: %q, format: combined}", s3.Region, server.Endpoint),
		&objects{put: func(key string, body []byte) { server.Put(key, body) }}
}

func eventsLog(t testing.TB) (source string, log lineLog) {
	loginToS3()
	server := moto.Start(t, "30")
	return fmt.Sprintf("{s3: \"s3://logs/web/\", sqs: %q, region: %s, endpoint: %q, format: combined}", server.Queue, moto.Region, server.Endpoint), &objects{put: server.Put}
}
