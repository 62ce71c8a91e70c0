package kinesis_test

import (
	"testing"

	"weir/internal/amazon"
	"weir/pkg/collector/kinesis"
	server "weir/test/kinesis"
	"weir/test/moto"
	"weir/test/streams"
)

// A bench is a server, and a collector that reads a stream there.
type bench struct {
	*streams.Bench
	server  *server.Server
	options kinesis.Options
}

func newBench(t testing.TB, s *server.Server) *bench {
	t.Helper()
	b := &bench{server: s}
	b.options = kinesis.Options{Stream: "logs", Where: amazon.Options{Region: server.Region, Endpoint: s.Endpoint}}
	b.again(t)
	return b
}

// again makes another collector.
func (b *bench) again(t testing.TB) {
	b.Bench = streams.New(t, "kinesis", nil)
	b.Source.Ordered.List = kinesis.New(b.options).List
}

// login gives the credentials to this process.
func login(t testing.TB, secret string) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": server.User, "AWS_SECRET_ACCESS_KEY": secret, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
	} {
		t.Setenv(name, value)
	}
}

// Each record counts once, although the collector and the server are stopped and started.
func TestAStreamIsCountedOnce(t *testing.T) {
	login(t, server.Secret)
	b := newBench(t, server.Start(t, 2))
	b.server.Add(b.Lines(3000))
	b.Start()
	b.Await()
	b.server.Add(b.Lines(1))
	b.Await()
	b.Restart(func() { b.server.Add(b.Lines(100)) })
	b.Await()
	b.Sink.Set(func() { b.Sink.Mute = true })
	b.server.Add(b.Lines(50))
	b.Sink.Await(t, b.Want)
	b.server.Kill()
	b.Trouble("connection refused")
	b.server.Restart()
	b.Sink.Unmute()
	b.server.Add(b.Lines(20))
	b.Await()
	read := int64(0)
	for _, log := range b.Status().Logs {
		read += log.Position
	}
	if read != 3171 {
		t.Errorf("the status is %+v", b.Status().Logs)
	}
}

// A stream that was made again is another one.
func TestAStreamThatIsMadeAgain(t *testing.T) {
	login(t, server.Secret)
	b := newBench(t, server.Start(t, 1))
	b.server.Delete()
	b.Start()
	b.Trouble("the stream logs: it does not exist")
	b.server.Make(1)
	b.server.Add(b.Lines(30))
	b.Await()
	b.server.Delete()
	b.Trouble("the stream logs: it does not exist")
	b.server.Make(2)
	b.server.Add(b.Lines(300))
	b.Await()
	b.Says("the stream was deleted and made again")
}

// A stream of moto is read too. It is another server of the same protocol, and its sequence numbers are small.
func TestMoto(t *testing.T) {
	login(t, server.Secret)
	b := newBench(t, server.At(t, moto.Start(t, "30").Endpoint))
	b.server.Make(3)
	b.server.Add(b.Unread(100))
	b.again(t) // it begins where the stream ends now
	b.Source.Ordered.Start.Latest = true
	b.Start()
	b.Settle()
	b.server.Add(b.Lines(2000))
	b.Await()
	b.Restart(func() { b.server.Add(b.Lines(100)) })
	b.Await()
}

// The shards of a stream that is split and merged are read in their order, also while the collector is stopped.
func TestSplitsAndMerges(t *testing.T) {
	login(t, server.Secret)
	b := newBench(t, server.Start(t, 1))
	const quarter, half = "85070591730234615865843651857942052864", "170141183460469231731687303715884105728"
	b.server.Add(b.Lines(500))
	b.server.Split(0, half)
	b.server.Add(b.Lines(500))
	b.Start()
	b.Await()
	b.server.Add(b.Lines(500))
	b.server.Split(1, quarter)
	b.server.Add(b.Lines(500))
	b.Await()
	b.Restart(func() {
		b.server.Add(b.Lines(500))
		b.server.Merge(3, 4)
		b.server.Add(b.Lines(500))
		b.server.Merge(5, 2)
		b.server.Add(b.Lines(500))
	})
	b.Await()
	if lost := b.Status().Lost; lost != 0 {
		t.Errorf("%d are lost", lost)
	}
	b.Restart(func() { b.server.Add(b.Lines(10)) })
	b.Await()
}
