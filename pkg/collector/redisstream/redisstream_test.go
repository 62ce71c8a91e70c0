package redisstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"weir/internal/store/redis"
	"weir/internal/store/redis/redistest"
	"weir/pkg/collector/ordered"
	"weir/pkg/collector/redisstream"
	"weir/test/streams"
	"weir/test/wait"
)

// A bench is a Redis, and a collector that reads streams there.
type bench struct {
	*streams.Bench
	server  *redistest.Server
	options redisstream.Options
}

func newBench(t *testing.T, arguments ...string) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{server: redistest.Start(t, arguments...)}
	b.options = redisstream.Options{Redis: redis.Options{URL: "redis://" + b.server.Addr}, Keys: []string{"logs"}}
	b.Bench = streams.New(t, "redis_stream", func() ([]ordered.Log, error) { return redisstream.Open(b.options) })
	return b
}

// add adds entries with one field each.
func (b *bench) add(key string, lines []string) {
	b.T.Helper()
	_, err := b.server.Client.Pipelined(context.Background(), func(p goredis.Pipeliner) error {
		for _, line := range lines {
			p.XAdd(context.Background(), &goredis.XAddArgs{Stream: key, Values: []string{"line", line}})
		}
		return nil
	})
	if err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) do(args ...any) {
	b.T.Helper()
	if err := b.server.Client.Do(context.Background(), args...).Err(); err != nil {
		b.T.Fatal(err)
	}
}

// Each entry counts once, with several keys, although the collector and the server are stopped and started.
func TestStreamsAreCountedOnce(t *testing.T) {
	b := newBench(t, "--appendonly", "yes", "--appendfsync", "always")
	b.options.Keys = []string{"logs", "other"}
	b.add("logs", b.Lines(5000))
	b.add("other", b.Lines(10))
	b.Start()
	b.Await()
	b.add("logs", b.Lines(1))
	b.Await()
	b.Restart(func() { b.add("logs", b.Lines(100)) })
	b.Await()
	b.Sink.Set(func() { b.Sink.Mute = true })
	b.add("logs", b.Lines(50))
	b.Sink.Await(t, b.Want)
	b.server.Kill()
	b.Trouble("reading logs")
	b.server.Restart()
	b.Sink.Unmute()
	b.add("other", b.Lines(20))
	b.Await()
	logs := b.Status().Logs
	if len(logs) != 2 || logs[0].Lag+logs[1].Lag != 0 || logs[0].Position+logs[1].Position != 5181 {
		t.Errorf("the status is %+v", logs)
	}
}

// A stream that was deleted and made again is another log, and one that is missing is read from its first entry once it
// is there, whatever start says.
func TestAStreamThatIsMadeAgain(t *testing.T) {
	b := newBench(t)
	b.Source.Ordered.Start.Latest = true
	b.Start()
	b.Trouble("reading logs: it does not exist")
	b.add("logs", b.Lines(20))
	b.Await()
	b.do("DEL", "logs")
	b.Trouble("reading logs: it does not exist")
	b.add("logs", b.Lines(50))
	b.Await()
	b.Says("the stream was deleted and made again")
	b.Restart(func() {
		b.do("DEL", "logs")
		b.add("logs", b.Lines(200)) // more than before
	})
	b.Await()
}

// IDs that are chosen and lower than those before are read too, and no ID is read twice after Redis has gone back.
func TestIDsThatGoBack(t *testing.T) {
	b := newBench(t)
	for n, line := range b.Lines(20) {
		b.do("XADD", "logs", fmt.Sprintf("%d-1", 100+n), "line", line)
	}
	b.Start()
	b.Await()
	b.do("DEL", "logs")
	for n, line := range b.Lines(10) {
		b.do("XADD", "logs", fmt.Sprintf("%d-1", 1+n), "line", line)
	}
	b.Await()
	b.Stop()

	old := newBenchOf(b)
	old.add("clock", old.Lines(30))
	copied, err := b.server.Client.Dump(context.Background(), "clock").Result()
	if err != nil {
		t.Fatal(err)
	}
	old.add("clock", old.Lines(10))
	old.Start()
	old.Await()
	old.do("DEL", "clock")
	if err := b.server.Client.Restore(context.Background(), "clock", 0, copied).Err(); err != nil {
		t.Fatal(err)
	}
	old.Says("Redis went back")
	old.Stop()
	old.Reads(30)
	old.add("clock", old.Lines(5))
	old.Await()
	if n := strings.Count(old.Said.String(), "Redis went back"); n != 1 {
		t.Errorf("the log has %d times that Redis went back", n)
	}
}

// newBenchOf is another bench on the same server, with another key.
func newBenchOf(other *bench) *bench {
	b := &bench{server: other.server, options: other.options}
	b.options.Keys = []string{"clock"}
	b.Bench = streams.New(other.T, "redis_stream", func() ([]ordered.Log, error) { return redisstream.Open(b.options) })
	return b
}

// Entries that were trimmed or deleted before they were read are counted as lost, those after they were read are not.
func TestEntriesThatAreDeleted(t *testing.T) {
	b := newBench(t)
	b.add("logs", b.Lines(100))
	b.Start()
	b.Await()
	b.do("XTRIM", "logs", "MAXLEN", 40)
	b.add("logs", b.Lines(10))
	b.Await()
	if said := b.Said.String(); strings.Contains(said, "deleted") {
		t.Error(said)
	}
	b.Stop()
	b.add("logs", b.Unread(30))
	b.do("XTRIM", "logs", "MAXLEN", 0)
	b.Start()
	b.Says("entries=30 from=110 to=140")
	b.add("logs", b.Lines(5))
	b.Await()
	b.Stop()
	b.add("logs", b.Lines(1))
	gone, err := b.server.Client.XAdd(t.Context(), &goredis.XAddArgs{Stream: "logs", Values: []string{"line", b.Unread(1)[0]}}).Result()
	if err != nil {
		t.Fatal(err)
	}
	b.add("logs", b.Lines(1))
	b.do("XDEL", "logs", gone)
	b.Start()
	b.Await()
	b.Says("entries=1 from=145 to=146")
	if log := b.Status().Logs[0]; log.Position != 148 {
		t.Errorf("the status is %+v", log)
	}
}

// start decides where a stream begins about which nothing is stored.
func TestStart(t *testing.T) {
	for name, start := range map[string]func(*streams.Bench){
		"latest":   func(b *streams.Bench) { b.Source.Ordered.Start.Latest = true },
		"duration": func(b *streams.Bench) { b.Source.Ordered.Start.Before = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			start(b.Bench)
			for n, line := range b.Unread(7) {
				b.do("XADD", "logs", fmt.Sprintf("%d-1", time.Now().Add(-2*time.Hour).UnixMilli()+int64(n)), "line", line)
			}
			if name == "duration" {
				b.add("logs", b.Lines(8))
			}
			b.Start()
			b.Settle()
			b.add("logs", b.Lines(5))
			b.Await()
			if status := b.Status(); status.Logs[0].Position != 7+int64(len(b.Want)) || len(status.Uncounted) > 0 {
				t.Errorf("the status is %+v", status)
			}
		})
	}
}

// An entry with several fields is a JSON object, unless one of them is named.
func TestFields(t *testing.T) {
	b := newBench(t)
	b.Source.Envelope, b.Source.Format = "auto", "auto"
	add := func(line string) {
		b.do("XADD", "logs", "*", "message", line, "timestamp", "2026-03-03T08:00:00Z", "host", "edge-1", "raw", "\xff\x00\"")
	}
	for _, line := range b.Lines(200) {
		add(line)
	}
	b.Start()
	b.Await()
	t.Log(b.Status().Format)
	b.Restart(func() { b.options.Field, b.Source.Envelope, b.Source.Format = "message", "none", "combined" })
	add(b.Lines(1)[0])
	b.Await()
	b.do("XADD", "logs", "*", "other", "field")
	wait.Until(t, "an entry without the field", func() bool { return b.Status().Uncounted["format"] == 1 })
}

// Long entries do not come at once, and one that is longer than a line may be is counted as such.
func TestLongEntries(t *testing.T) {
	b := newBench(t)
	long := func(line string, size int) []string {
		return []string{strings.TrimSuffix(line, `test"`) + strings.Repeat("x", size) + `"`}
	}
	for _, line := range b.Lines(12) {
		b.add("logs", long(line, 8<<20))
	}
	b.add("logs", long(b.Unread(1)[0], 17<<20))
	b.add("logs", b.Lines(3))
	b.Start()
	b.Await()
	if got := b.Status().Uncounted["long"]; got != 1 {
		t.Errorf("%d entries are too long", got)
	}
	b.do("XADD", "logs", "*", "line", strings.Repeat("y", 65<<20))
	b.Trouble("has more than 64 MiB and cannot be read")
	last, err := b.server.Client.XRevRangeN(t.Context(), "logs", "+", "-", 1).Result()
	if err != nil {
		t.Fatal(err)
	}
	b.do("XDEL", "logs", last[0].ID)
	b.add("logs", b.Lines(1))
	b.Await()
}

// A password that no longer works stops nothing but the source, and the next one in the file is used.
func TestAPasswordThatChanges(t *testing.T) {
	b := newBench(t)
	rights := []any{"ACL", "SETUSER", "weir", "reset", "on", ">first", "~logs", "+xrange", "+xread", "+xinfo", "+multi", "+exec"}
	b.do(rights...)
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	b.options.Redis.User = "weir"
	b.options.Redis.ReadPassword = func() (string, error) {
		text, err := os.ReadFile(file)
		return string(text), err
	}
	b.add("logs", b.Lines(10))
	b.Start()
	b.Await()
	b.do("ACL", "SETUSER", "weir", "resetpass", ">second")
	b.do("CLIENT", "KILL", "USER", "weir")
	b.Trouble(`Redis refuses user "weir": wrong password`)
	b.add("logs", b.Lines(10))
	write("second")
	b.Await()
	b.do("ACL", "SETUSER", "weir", "-xinfo")
	b.Trouble("an administrator permits it: ACL SETUSER")
	b.do("ACL", "SETUSER", "weir", "+xinfo")
	b.add("logs", b.Lines(10))
	b.Await()
	if said := b.Said.String(); strings.Contains(said, "second") || strings.Contains(said, "first\"") {
		t.Error(said)
	}
	b.do("SET", "string", "x")
	b.do("ACL", "SETUSER", "weir", "~string")
	b.options.Keys = []string{"string"}
	b.Restart(func() {})
	b.Trouble("it is not a stream")
}

func FuzzEntries(f *testing.F) {
	f.Add("1-2", "~3-4", []byte(`{"a":"b"}`), "a")
	f.Add("18446744073709551615-0", "", []byte(`{}`), "")
	f.Fuzz(func(t *testing.T, id, place string, fields []byte, field string) {
		var values map[string]any
		if json.Unmarshal(fields, &values) != nil {
			return
		}
		redisstream.CheckDecoding(t, id, place, values, field)
	})
}
