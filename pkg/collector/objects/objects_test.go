package objects_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"weir/internal/bucket"
	"weir/pkg/collector/objects"
	"weir/pkg/collector/ordered"
	"weir/pkg/collector/pipeline"
	"weir/test/metric"
	"weir/test/real"
	"weir/test/s3"
	"weir/test/streams"
	"weir/test/wait"
)

// A bench is a collector that reads the objects of a real server.
type bench struct {
	*streams.Bench
	server  *s3.Server
	options objects.Options
}

func newBench(t testing.TB) *bench {
	b := &bench{server: s3.Start(t)}
	login(t, s3.Secret)
	b.options = objects.Options{
		URL: "s3://logs/web/", Delay: time.Hour, Where: bucket.Options{Region: s3.Region, Endpoint: b.server.Endpoint}, ListEvery: 50 * time.Millisecond,
	}
	b.Bench = streams.New(t, "s3", func() ([]ordered.Log, error) {
		log, err := objects.Open(b.options)
		return []ordered.Log{log}, err
	})
	return b
}

// lost is how many objects are counted as lost.
func (b *bench) lost() float64 {
	lost, _ := metric.Value(b.T, b.Metrics, "weir_collector_uncounted_total", "reason", "lost")
	return lost
}

// login writes the credentials to the SDK's file.
func login(t testing.TB, secret string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "credentials")
	write(t, file, secret)
	for name, value := range map[string]string{
		"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_CONFIG_FILE": file + ".none", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "",
	} {
		if t, ok := t.(interface{ Setenv(string, string) }); ok {
			t.Setenv(name, value)
		}
	}
	return file
}

func write(t testing.TB, file, secret string) {
	t.Helper()
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", s3.User, secret)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func text(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

func packed(lines []string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text(lines))
	_ = w.Close()
	return b.Bytes()
}

func packedZstd(lines []string) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(text(lines), nil)
}

// Objects of all kinds, and a collector that stops while nothing is acknowledged: each line counts once.
func TestEachLineOfEachObjectCountsOnce(t *testing.T) {
	b := newBench(t)
	b.server.Put("other/a.log", text(b.Unread(5)))
	b.server.Put("web/folder/", nil)
	b.server.Put("web/AWSLogs/1/ELBAccessLogTestFile", []byte("a test\n"))
	b.server.Put("web/a.log", text(b.Lines(10)))
	b.Start()
	b.Await()
	for n := range 3 {
		b.Sink.Set(func() { b.Sink.Mute = true })
		b.server.Put(fmt.Sprintf("web/%d/b.log.gz", n), packed(b.Lines(3000)))
		b.server.Put(fmt.Sprintf("web/%d/c.zst", n), packedZstd(b.Lines(10)))
		b.server.Put(fmt.Sprintf("web/%d/d", n), bytes.TrimSuffix(text(b.Lines(10)), []byte("\n")))
		b.server.Put(fmt.Sprintf("web/%d/e", n), nil)
		b.server.Put(fmt.Sprintf("web/%d/f", n), text(b.Lines(20_000)))
		b.Sink.Await(t, b.Want)
		b.Restart(func() { b.server.Put(fmt.Sprintf("web/%d/g", n), text(b.Lines(5))) })
		b.Sink.Unmute()
		b.Await()
	}
}

// An object that has more lines than before is read on, one with other lines from its beginning, and one that is written
// again as it was not at all.
func TestAnObjectThatIsWrittenAgain(t *testing.T) {
	b := newBench(t)
	first, same := b.Lines(10), b.Lines(10)
	b.server.Put("web/grows", text(first))
	b.server.Put("web/same", text(same))
	b.server.Put("web/packed.gz", packed(first[:0]))
	b.server.Put("web/other", text(b.Lines(10)))
	b.Start()
	b.Await()
	for range 2 {
		first = append(first, b.Lines(10)...)
		b.server.Put("web/grows", text(first))
		b.server.Put("web/same", text(same))
		b.server.Put("web/other", text(b.Lines(12)))
		b.Await()
		b.Restart(func() {})
		b.Await()
	}
	b.server.Put("web/same", packed(same)) // the same lines under another ETag
	b.server.Put("web/z", text(b.Lines(1)))
	b.Await()
}

// A bucket that is deleted and made again is read on, and so is one whose server ends.
func TestABucketThatIsMadeAgain(t *testing.T) {
	b := newBench(t)
	b.server.Put("web/a", text(b.Lines(10)))
	b.Start()
	b.Await()
	b.server.DeleteBucket()
	b.Trouble("it does not exist")
	b.server.MakeBucket()
	b.server.Put("web/a", text(b.Lines(10)))
	b.Await()
	b.server.Kill()
	b.Trouble("connection refused")
	b.server.Restart()
	b.server.Put("web/b", text(b.Lines(10)))
	b.Await()
}

// Credentials that the server refuses stop nothing but the source, and those that the file has then are used.
func TestCredentialsThatExpire(t *testing.T) {
	b := newBench(t)
	file := login(t, s3.Secret)
	b.server.Put("web/a", text(b.Lines(10)))
	b.Start()
	b.Await()
	b.server.ChangeSecret("anothersecret")
	b.Trouble("the server refuses the credentials (SignatureDoesNotMatch)")
	b.server.Put("web/b", text(b.Lines(10)))
	write(t, file, "anothersecret")
	b.Await()
	if said := b.Said.String(); strings.Contains(said, "anothersecret") || strings.Contains(said, s3.Secret) {
		t.Error(said)
	}
}

// An object that cannot be unpacked is read as far as it can be, and counted.
func TestAnObjectThatIsDamaged(t *testing.T) {
	b := newBench(t)
	whole := packed(b.Unread(50))
	b.server.Put("web/a.gz", append(packed(b.Lines(10)), whole[:30]...))
	b.server.Put("web/b.zip", []byte("PK\x03\x04 and so on"))
	b.server.Put("web/c", text(b.Lines(10)))
	b.Start()
	b.Await()
	wait.Until(t, "two objects to be counted as lost", func() bool { return b.lost() == 2 })
	b.Says("cannot be read: unexpected EOF")
	b.Says("zip is not read: unpack it")
}

func TestALongLineIsCounted(t *testing.T) {
	b := newBench(t)
	b.server.Put("web/a", append(append(text(b.Lines(3)), bytes.Repeat([]byte("x"), 17<<20)...), append([]byte("\n"), text(b.Lines(3))...)...))
	b.Start()
	b.Await()
	if long := b.Status().Uncounted["long"]; long != 1 {
		t.Errorf("%d lines are too long", long)
	}
}

// With latest, objects that are there at the beginning are not read, and those that are written then are.
func TestLatestBeginsWithWhatIsWrittenThen(t *testing.T) {
	b := newBench(t)
	b.Source.Ordered.Start = pipeline.Start{Latest: true}
	b.server.Put("web/a", text(b.Unread(10)))
	b.server.WrittenAt("web/a", time.Now().Add(-time.Minute))
	b.Start()
	b.Settle()
	b.server.Put("web/b", text(b.Lines(10)))
	b.server.WrittenAt("web/b", time.Now().Add(time.Second))
	b.Await()
	b.Restart(func() { b.server.Put("web/c", text(b.Lines(10))) })
	b.Await()
}

// Of many objects, each line counts once, although the collector stops in the midst and some are written twice. The
// journal has those of the delay only.
func TestManyObjects(t *testing.T) {
	real.Long(t)
	b := newBench(t)
	const many = 10_000
	var keys []string
	for n := range many {
		keys = append(keys, fmt.Sprintf("web/%d/%05d.log", n%7, n))
	}
	put := func(keys []string) {
		b.server.PutAll(keys, func(string) []byte { return text(b.Lines(2)) })
	}
	put(keys[:many/2])
	b.Start()
	put(keys[many/2 : many-1000])
	for range 3 {
		b.Restart(func() { put(keys[many-1000:][:100]); keys = append(keys[:many-1000], keys[many-900:]...) })
	}
	again := b.Lines(2)
	for range 2 {
		b.server.Put("web/again", text(again))
	}
	put(keys[many-1000:])
	b.Await()
	full := b.JournalBytes()
	b.Await()

	b.Stop()
	b.options.Delay = time.Second
	b.Start()
	b.Settle()
	wait.Until(t, "old objects to be forgotten", func() bool {
		time.Sleep(2 * time.Second) // a listing takes some time, and the size is known after the collector is stopped
		return b.JournalBytes() < full/4
	})
	t.Logf("the journal had %d bytes", full)
}

// An object that appears with a time before the delay is not read, and it is counted once.
func TestALateObjectIsCounted(t *testing.T) {
	b := newBench(t)
	b.options.Delay = time.Second
	b.server.Put("web/a", text(b.Lines(10)))
	b.Start()
	b.Await()
	time.Sleep(3 * time.Second) // longer than the delay, so that it is forgotten
	b.server.Put("web/b", text(b.Lines(10)))
	b.Await()
	b.server.Put("other/late", text(b.Unread(10)))
	b.server.WrittenAt("other/late", time.Now().Add(-time.Minute))
	b.server.Move("other/late", "web/late")
	b.Says("1 objects appeared later than the delay")
	b.Restart(func() { b.server.Put("web/c", text(b.Lines(10))) })
	b.Await()
	if lost := b.lost(); lost != 0 {
		t.Errorf("%g objects are lost after a restart", lost)
	}
}

// The next listing follows at once, and finds the objects for which the last one had no room.
func TestMoreObjectsThanAListingKeeps(t *testing.T) {
	objects.KeepUnread(t, 10)
	b := newBench(t)
	b.options.ListEvery = time.Hour
	for n := range 55 {
		b.server.Put(fmt.Sprintf("web/%02d", n), text(b.Lines(2)))
	}
	b.Start()
	b.Await()
}
