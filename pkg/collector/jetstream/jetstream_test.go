package jetstream_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	natsgo "github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"weir/pkg/collector/jetstream"
	"weir/pkg/collector/ordered"
	"weir/test/nats"
	"weir/test/streams"
)

// A bench is a server, and a collector that reads a stream there.
type bench struct {
	*streams.Bench
	server  *nats.Server
	options jetstream.Options
}

func newBench(t *testing.T, more string, options ...natsgo.Option) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{server: nats.Start(t, nats.Synced+more)}
	b.options = jetstream.Options{URL: b.server.URL, Stream: "logs"}
	b.Bench = streams.New(t, "nats", func() ([]ordered.Log, error) {
		log, err := jetstream.Open(b.options)
		return []ordered.Log{log}, err
	})
	b.server.Client(options...)
	return b
}

// make makes the stream.
func (b *bench) make() {
	b.T.Helper()
	b.create(js.StreamConfig{Name: "logs", Subjects: []string{"logs.>"}, AllowDirect: true})
}

func (b *bench) create(config js.StreamConfig) {
	b.T.Helper()
	if _, err := b.server.Client().CreateStream(b.T.Context(), config); err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) delete() {
	b.T.Helper()
	if err := b.server.Client().DeleteStream(b.T.Context(), "logs"); err != nil {
		b.T.Fatal(err)
	}
}

// stream is the stream as its server knows it.
func (b *bench) stream() js.Stream {
	b.T.Helper()
	stream, err := b.server.Client().Stream(b.T.Context(), "logs")
	if err != nil {
		b.T.Fatal(err)
	}
	return stream
}

// Each message counts once, although the collector and the server are stopped and started.
func TestAStreamIsCountedOnce(t *testing.T) {
	b := newBench(t, "")
	b.make()
	b.server.Add("logs.a", b.Lines(5000))
	b.Start()
	b.Await()
	b.server.Add("logs.a", b.Lines(1))
	b.Await()
	b.Restart(func() { b.server.Add("logs.b", b.Lines(100)) })
	b.Await()
	b.Sink.Set(func() { b.Sink.Mute = true })
	b.server.Add("logs.a", b.Lines(50))
	b.Sink.Await(t, b.Want)
	b.server.Kill()
	b.Trouble("the server cannot be reached")
	b.server.Restart()
	b.Sink.Unmute()
	b.server.Add("logs.a", b.Lines(20))
	b.Await()
	if log := b.Status().Logs[0]; log.Lag != 0 || log.Position != 5171 || log.Log != "logs" {
		t.Errorf("the status is %+v", log)
	}
}

// A stream that was deleted and made again is another log, and one that is missing is read from its first message once
// it is there, whatever start says.
func TestAStreamThatIsMadeAgain(t *testing.T) {
	b := newBench(t, "")
	b.Source.Ordered.Start.Latest = true
	b.Start()
	b.Trouble("reading logs: it does not exist")
	b.make()
	b.server.Add("logs.a", b.Lines(20))
	b.Await()
	b.delete()
	b.Trouble("reading logs: it does not exist")
	b.make()
	b.server.Add("logs.a", b.Lines(50))
	b.Await()
	b.Says("the stream was deleted and made again")
	b.Restart(func() {
		b.delete()
		b.make()
		b.server.Add("logs.a", b.Lines(200)) // more than before
	})
	b.Await()
	b.delete()
	b.make()
	b.server.Add("logs.a", b.Lines(300))
	b.Await()
}

// A stream whose messages have to be acknowledged is not read. The status has what to do instead, and that works.
func TestAStreamThatNeedsAcknowledgements(t *testing.T) {
	b := newBench(t, "")
	for retention, name := range map[js.RetentionPolicy]string{js.WorkQueuePolicy: "workqueue", js.InterestPolicy: "interest"} {
		b.create(js.StreamConfig{Name: "logs", Subjects: []string{"logs.>"}, Retention: retention})
		b.Start()
		b.Trouble("the stream has the retention " + name + ": its messages are deleted once")
		b.Stop()
		b.delete()
	}
	b.create(js.StreamConfig{Name: "copy", Subjects: []string{"copy.>"}})
	b.create(js.StreamConfig{
		Name: "logs", Subjects: []string{"logs.>"}, Retention: js.WorkQueuePolicy, RePublish: &js.RePublish{Source: "logs.>", Destination: "copy.>"},
	})
	b.options.Stream = "copy"
	b.server.Add("logs.a", b.Lines(5))
	b.Start()
	b.Await()
}

// Messages that were deleted before they were read are counted as lost, those after they were read are not.
func TestMessagesThatAreDeleted(t *testing.T) {
	b := newBench(t, "")
	b.make()
	b.server.Add("logs.a", b.Lines(100))
	b.Start()
	b.Await()
	if err := b.stream().Purge(t.Context(), js.WithPurgeKeep(40)); err != nil {
		t.Fatal(err)
	}
	b.server.Add("logs.a", b.Lines(10))
	b.Await()
	if said := b.Said.String(); strings.Contains(said, "deleted") {
		t.Error(said)
	}
	b.Stop()
	b.server.Add("logs.a", b.Unread(30))
	if err := b.stream().Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.server.Add("logs.a", b.Lines(5))
	b.server.Add("logs.a", b.Unread(1))
	b.server.Add("logs.a", b.Lines(5))
	if err := b.stream().DeleteMsg(t.Context(), 146); err != nil {
		t.Fatal(err)
	}
	b.Start()
	b.Await()
	b.Says("entries=30 from=110 to=140")
	b.Says("entries=1 from=145 to=146")
}

// A server that went back to an older copy of its files has other messages at the same numbers. Those that are newer
// than what was read count, and no other.
func TestAServerThatGoesBack(t *testing.T) {
	for name, more := range map[string]int{"and is shorter": 5, "and is longer": 50} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "")
			b.make()
			b.server.Add("logs.a", b.Lines(100))
			b.server.Kill()
			store := filepath.Join(b.server.Folder, "store")
			if err := os.CopyFS(store+".old", os.DirFS(store)); err != nil {
				t.Fatal(err)
			}
			b.server.Restart()
			b.server.Add("logs.a", b.Lines(20))
			b.Start()
			b.Await()
			b.Stop()
			b.server.Kill()
			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(store+".old", store); err != nil {
				t.Fatal(err)
			}
			b.server.Restart()
			b.server.Add("logs.a", b.Lines(more))
			b.Start()
			b.Says("the server went back")
			b.Await()
			b.server.Add("logs.a", b.Lines(30))
			b.Await()
		})
	}
}

// start decides where a stream begins about which nothing is stored, and subject which messages are read.
func TestStartAndSubject(t *testing.T) {
	for name, start := range map[string]func(*streams.Bench){
		"latest":   func(b *streams.Bench) { b.Source.Ordered.Start.Latest = true },
		"duration": func(b *streams.Bench) { b.Source.Ordered.Start.Before = 2 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "")
			b.options.Subject = "logs.*"
			start(b.Bench)
			b.make()
			b.server.Add("logs.a", b.Unread(7))
			time.Sleep(2 * time.Second)
			b.Start()
			b.Settle()
			b.server.Add("logs.b", b.Lines(5))
			b.server.Add("logs.b.c", b.Unread(5))
			b.server.Add("logs.b", b.Lines(5))
			b.Await()
			if status := b.Status(); status.Logs[0].Position != 22 || len(status.Uncounted) > 0 {
				t.Errorf("the status is %+v", status)
			}
		})
	}
}

// Messages of several MiB are read, and one that is longer than a line may be is counted as such.
func TestLongMessages(t *testing.T) {
	b := newBench(t, "max_payload: 20MB\nmax_pending: 64MB\n")
	b.make()
	long := func(line string, size int) []string {
		return []string{strings.TrimSuffix(line, `test"`) + strings.Repeat("x", size) + `"`}
	}
	for _, line := range b.Lines(4) {
		b.server.Add("logs.a", long(line, 9<<20))
	}
	b.server.Add("logs.a", long(b.Unread(1)[0], 17<<20))
	b.server.Add("logs.a", b.Lines(700))
	b.Start()
	b.Await()
	if got := b.Status().Uncounted["long"]; got != 1 {
		t.Errorf("%d messages are too long", got)
	}
}

// A password that no longer works stops nothing but the source, and the next one in the file is used. Missing rights are
// named.
func TestAPasswordThatChanges(t *testing.T) {
	rights := `["$JS.API.STREAM.INFO.logs", "$JS.API.STREAM.MSG.GET.logs", "$JS.API.DIRECT.GET.logs", "$JS.API.DIRECT.GET.logs.>", "$JS.API.CONSUMER.CREATE.logs.>", "$JS.API.CONSUMER.MSG.NEXT.logs.>"]`
	b := newBench(t, fmt.Sprintf(`
accounts: {A: {jetstream: enabled, users: [
  {user: all, password: all},
  {user: weir, password: first, permissions: {publish: %s, subscribe: "_INBOX.>"}},
]}}
`, rights), natsgo.UserInfo("all", "all"))
	b.make()
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	b.options.User = "weir"
	b.options.Password = func() (string, error) {
		text, err := os.ReadFile(file)
		return string(text), err
	}
	b.server.Add("logs.a", b.Lines(10))
	b.Start()
	b.Await()
	b.server.Change("password: first", "password: second")
	b.Trouble("the server refuses our user")
	b.server.Add("logs.a", b.Lines(10))
	write("second")
	b.Await()
	b.Restart(func() { b.server.Change(`"$JS.API.CONSUMER.CREATE.logs.>", `, "") })
	b.Trouble("an administrator permits publishing to $JS.API.STREAM.INFO.logs")
	if said := b.Said.String(); strings.Contains(said, "second") {
		t.Error(said)
	}
}

// Credentials that expire are read again from their file.
func TestCredentialsThatExpire(t *testing.T) {
	operator, account, user := newKey(t, nkeys.PrefixByteOperator), newKey(t, nkeys.PrefixByteAccount), newKey(t, nkeys.PrefixByteUser)
	system := newKey(t, nkeys.PrefixByteAccount)
	encode := func(claims jwt.Claims, key nkeys.KeyPair) string {
		text, err := claims.Encode(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	public := func(key nkeys.KeyPair) string {
		text, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	accountClaims := jwt.NewAccountClaims(public(account))
	accountClaims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1}
	file := filepath.Join(t.TempDir(), "weir.creds")
	write := func(path string, lasts time.Duration) {
		claims := jwt.NewUserClaims(public(user))
		if lasts > 0 {
			claims.Expires = time.Now().Add(lasts).Unix()
		}
		seed, err := user.Seed()
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.FormatUserConfig(encode(claims, account), seed)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	always := filepath.Join(t.TempDir(), "always.creds")
	write(always, 0)
	b := newBench(t, fmt.Sprintf("operator: %s\nresolver: MEMORY\nsystem_account: %s\nresolver_preload: {%s: %s, %s: %s}\n",
		encode(jwt.NewOperatorClaims(public(operator)), operator), public(system),
		public(system), encode(jwt.NewAccountClaims(public(system)), operator), public(account), encode(accountClaims, operator)), natsgo.UserCredentials(always))
	b.make()
	write(file, 6*time.Second)
	b.options.Credentials = file
	b.server.Add("logs.a", b.Lines(10))
	b.Start()
	b.Await()
	b.Trouble("the server refuses our user")
	b.server.Add("logs.a", b.Lines(10))
	write(file, time.Hour)
	b.Await()
}

func newKey(t *testing.T, kind nkeys.PrefixByte) nkeys.KeyPair {
	t.Helper()
	key, err := nkeys.CreatePair(kind)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
