package objects_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"weir/internal/bucket"
	"weir/pkg/collector/objects"
	"weir/pkg/collector/ordered"
	"weir/test/moto"
	"weir/test/streams"
	"weir/test/wait"
)

// A queueBench is a collector that reads the objects of a stand-in of S3 and SQS, as a queue has events about them.
type queueBench struct {
	*streams.Bench
	server  *moto.Server
	options objects.Options
}

func newQueueBench(t *testing.T) *queueBench {
	b := &queueBench{server: moto.Start(t, "2")}
	write(t, login(t, "weirweir"), "weirweir")
	b.options = objects.Options{
		URL: "s3://logs/web/", Delay: time.Minute, Where: bucket.Options{Region: moto.Region, Endpoint: b.server.Endpoint}, Queue: b.server.Queue,
	}
	b.Bench = streams.New(t, "s3", func() ([]ordered.Log, error) {
		log, err := objects.Open(b.options)
		return []ordered.Log{log}, err
	})
	return b
}

func (b *queueBench) lost() int64 { return b.Status().Lost }

// emptied waits until all messages are deleted.
func (b *queueBench) emptied() {
	b.T.Helper()
	wait.Until(b.T, "the queue to be empty", func() bool { return b.server.Left() == "0 and 0" })
}

// record is an event as S3's documents have it.
func record(bucket, key, etag string) string {
	return fmt.Sprintf(`{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","awsRegion":"us-west-2","eventTime":"1970-01-01T00:00:00.000Z",
		"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":%q},"object":{"key":%q,"size":1024,"eTag":%q,"sequencer":"0A1B2C3D4E5F678901"}}}]}`, bucket, url.QueryEscape(key), etag)
}

// Each object counts once, whatever messages name it and however often, although the collector stops. A message is
// deleted once Kafka has the hits.
func TestObjectsOfEventsCountOnce(t *testing.T) {
	b := newQueueBench(t)
	b.server.Put("web/a b+c%.log", text(b.Lines(10)))
	b.server.Put("web/folder/", nil)
	b.Start()
	b.Await()
	b.emptied()

	// Forms of SNS and EventBridge; events that come again, and of what was read.
	b.server.Put("web/b.gz", packed(b.Lines(10)))
	b.server.Send(fmt.Sprintf(`{"Type":"Notification","TopicArn":"arn","Message":%q}`, record("logs", "web/b.gz", "")))
	b.server.Send(record("logs", "web/a b+c%.log", ""))
	b.server.Send(`{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2014-10-13T15:57:02.089Z","Bucket":"logs"}`)
	b.server.Send(`{"Records":[{"eventName":"ObjectRemoved:Delete","s3":{"bucket":{"name":"logs"},"object":{"key":"web/x"}}}]}`)
	b.server.Send(`{"version":"0","detail-type":"Object Created","time":"2021-11-12T00:00:00Z","detail":{"bucket":{"name":"logs"},"object":{"key":"web/a b+c%.log","size":5,"etag":"b1946ac92492d2347c6235b4d2611184"}}}`)
	b.Await()
	b.emptied()

	// Hits that are not sent when the collector stops are sent then, and their message comes again.
	b.Sink.Set(func() { b.Sink.Mute = true })
	b.server.Put("web/c", text(b.Lines(10)))
	b.Sink.Await(t, b.Want)
	if left := b.server.Left(); left == "0 and 0" {
		t.Error("the message was deleted before its hits were acknowledged")
	}
	b.Stop()
	b.Sink.Unmute()
	b.Start()
	b.Await()
	b.emptied()
	b.Restart(func() { b.server.Put("web/d", text(b.Lines(10))) })
	b.Await()
	b.emptied()

	// Of an object that was written again with more lines, those are read.
	lines := b.Lines(5)
	b.server.Put("web/e", text(lines))
	b.Await()
	b.server.Put("web/e", text(append(lines, b.Lines(5)...)))
	b.Await()
	b.emptied()
}

// Messages about other objects stay in the queue, and are named. Objects that are gone are counted as lost.
func TestMessagesOfOthersStay(t *testing.T) {
	b := newQueueBench(t)
	b.server.Send(record("other", "web/a", ""))
	b.server.Send(record("logs", "elsewhere/a", ""))
	b.server.Send("{{{")
	b.server.Send(`{"Message":"{\"Message\":\"{\\\"Message\\\":\\\"{}\\\"}\"}"}`)
	b.server.Put("web/gone", text(b.Unread(3)))
	b.server.Delete("web/gone")
	b.server.Put("web/a", text(b.Lines(3)))
	b.Start()
	b.Await()
	wait.Until(t, "five to be counted as lost", func() bool { return b.lost() == 5 })
	b.Says("a message stays in the queue: it is about s3://logs/elsewhere/a")
	b.Says("a message stays in the queue: it is no event of S3")
	time.Sleep(3 * time.Second) // they come again
	if lost := b.lost(); lost != 5 {
		t.Errorf("%d are lost when the messages came again", lost)
	}
	wait.Until(t, "four messages to be left", func() bool {
		left := b.server.Left()
		return left == "4 and 0" || left == "0 and 4" || left == "1 and 3" || left == "3 and 1" || left == "2 and 2"
	})
}

// A queue that hides messages for longer than the objects are remembered is refused, and faults are named.
func TestFaultsOfQueues(t *testing.T) {
	b := newQueueBench(t)
	b.options.Delay = 3 * time.Second
	b.Start()
	b.Trouble("set delay to 4s or more")
	b.options.Delay, b.options.Queue = time.Minute, b.server.Queue+"x"
	b.Restart(func() {})
	b.Trouble("the queue does not exist")
	b.options.Queue = "http://127.0.0.1:1/1/logs"
	b.Restart(func() {})
	b.Trouble("connection refused")
	b.options.Queue = b.server.Queue
	b.Restart(func() { b.server.Put("web/a", text(b.Lines(3))) })
	b.Await()
}

// Objects are remembered for one delay, and not longer.
func TestReadObjectsAreForgotten(t *testing.T) {
	b := newQueueBench(t)
	b.options.Delay = 5 * time.Second
	b.server.Put("web/a", text(b.Lines(3)))
	b.Start()
	b.Await()
	b.server.Send(record("logs", "web/a", ""))
	b.emptied()
	b.Await()
	wait.Until(t, "an event to be one of a new object", func() bool {
		b.server.Send(record("logs", "web/a", ""))
		b.emptied()
		return b.Status().Requests > 3
	})
}

func FuzzEvents(f *testing.F) {
	f.Add(record("logs", "web/a", "etag"))
	f.Add(`{"Message":"{\"Records\":[]}"}`)
	f.Add(`{"detail-type":"Object Created","detail":{"bucket":{"name":"logs"},"object":{"key":"a"}}}`)
	f.Fuzz(func(t *testing.T, body string) { objects.EventsIn(t, body) })
}
