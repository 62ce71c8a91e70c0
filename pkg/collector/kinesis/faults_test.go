package kinesis_test

import (
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/pkg/collector/kinesis"
	server "weir/test/kinesis"
	"weir/test/streams"
	"weir/test/wait"
)

// newFaulty is a bench whose server is the stand-in, and whose clock may be ahead.
func newFaulty(t *testing.T) (*bench, *standIn, *atomic.Int64) {
	t.Helper()
	login(t, server.Secret)
	s, ahead := newStandIn(t), &atomic.Int64{}
	b := newBench(t, server.At(t, s.URL))
	b.options.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	b.again(t)
	return b, s, ahead
}

// restart makes a collector that knows nothing but its journal.
func (b *bench) restart(meanwhile func()) {
	b.Restart(func() {
		meanwhile()
		b.Source.Ordered.List = kinesis.New(b.options).List
	})
}

// Records that the stream deleted before they were read are counted as lost, once. Those that were read before are not.
func TestRecordsThatAreDeleted(t *testing.T) {
	b, s, ahead := newFaulty(t)
	s.add(0, b.Lines(20)...)
	b.Start()
	b.Await()
	trim := func(n int) func() {
		return func() { s.set(func() { s.shards[server.Shard(0)].hidden = n }) }
	}
	b.restart(trim(20)) // all was read
	s.add(0, b.Lines(10)...)
	b.Await()
	if lost := b.Status().Lost; lost != 0 {
		t.Errorf("%d are lost", lost)
	}
	b.restart(func() {
		s.add(0, b.Unread(5)...)
		s.add(0, b.Lines(5)...)
		trim(35)()
		ahead.Add(int64(25 * time.Hour))
	})
	b.Await()
	wait.Until(t, "them to be counted as lost", func() bool { return b.Status().Lost == 1 })
	b.Says("records were deleted after the stream's retention of 24h0m0s, before they were read")
	b.restart(func() { s.add(0, b.Lines(5)...) })
	b.Await()
	if lost := b.Status().Lost; lost != 0 {
		t.Errorf("after a restart, %d are lost", lost)
	}
}

// A shard that is gone before it was read is counted, and its children are read.
func TestAShardThatIsGone(t *testing.T) {
	b, s, _ := newFaulty(t)
	s.add(0, b.Lines(20)...)
	b.Start()
	b.Await()
	s.make(1, server.Shard(0))
	s.add(1, b.Lines(20)...)
	s.set(func() {
		delete(s.shards, server.Shard(0))
		s.order = []string{server.Shard(1)}
	})
	b.Await()
	b.Says("the shard was deleted before it was read to its end")
}

// A child is not read before its parent is.
func TestAChildWaitsForItsParent(t *testing.T) {
	b, s, _ := newFaulty(t)
	s.make(1, server.Shard(0))
	s.add(0, b.Lines(100)...)
	s.add(1, b.Unread(10)...)
	b.Start()
	b.Sink.Await(t, b.Want)
	wait.Until(t, "two listings", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.calls["ListShards"] > 1
	})
	if logs := b.Status().Logs; len(logs) != 1 || b.CaughtUp() {
		t.Errorf("the status is %+v", logs)
	}
	b.Sink.Await(t, b.Want)
	s.set(func() { s.shards[server.Shard(0)].closed = true })
	for n := range 10 {
		b.Want[fmt.Sprintf("per-ip 203.0.113.%d", (101+n)%50)]++
	}
	b.Await()
}

// A shard is read whose name another one had that has ended, of the stream before.
func TestAStreamThatIsMadeAgainAfterASplit(t *testing.T) {
	b, s, _ := newFaulty(t)
	s.make(1, server.Shard(0))
	s.add(0, b.Lines(20)...)
	s.add(1, b.Lines(20)...)
	s.set(func() { s.shards[server.Shard(0)].closed = true })
	b.Start()
	b.Await()
	s.set(func() {
		s.made++
		s.shards, s.order = map[string]*standInShard{}, nil
	})
	s.make(0, "")
	s.add(0, b.Lines(30)...)
	b.Await()
	b.Says("the stream was deleted and made again")
}

// Records are read while the server does not answer a listing.
func TestAListingThatHangs(t *testing.T) {
	b, s, ahead := newFaulty(t)
	s.add(0, b.Lines(20)...)
	b.Start()
	b.Await()
	listings := 0
	s.set(func() { s.hangs, listings = "DescribeStreamSummary", s.calls["DescribeStreamSummary"] })
	ahead.Add(int64(time.Minute))
	wait.Until(t, "a listing", func() (begun bool) {
		s.set(func() { begun = s.calls["DescribeStreamSummary"] > listings })
		return begun
	})
	s.add(0, b.Lines(20)...)
	b.Sink.Await(t, b.Want)
	s.set(func() {
		s.hangs = ""
		if s.gaveUp > 0 {
			t.Error("the records were read once the listing had failed")
		}
	})
}

// Calls that the server refuses for some time are made again, with the status as it was; then the status shows why.
func TestRefusedCalls(t *testing.T) {
	b, s, ahead := newFaulty(t)
	s.add(0, b.Lines(20)...)
	s.fail("GetRecords", 2, "ProvisionedThroughputExceededException")
	s.fail("GetShardIterator", 1, "InternalFailure")
	b.Start()
	b.Await()
	s.fail("GetRecords", 1, "ExpiredIteratorException")
	s.add(0, b.Lines(20)...)
	b.Await()
	if said := b.Said.String(); strings.Contains(said, "refuses") {
		t.Error(said)
	}
	b.restart(func() { s.add(0, b.Lines(20)...) })
	s.fail("GetShardIterator", 1, "InvalidArgumentException")
	b.restart(func() { s.add(0, b.Lines(20)...) })
	b.Await()
	if lost := b.Status().Lost; lost != 0 {
		t.Errorf("%d are lost", lost)
	}
	s.fail("GetRecords", 1000, "ProvisionedThroughputExceededException")
	wait.Until(t, "a call", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.fails["GetRecords"]) < 999 })
	ahead.Add(int64(time.Minute))
	b.Trouble("share 5 calls and 2 MiB a second")
	s.set(func() { clear(s.fails) })
	s.add(0, b.Lines(20)...)
	b.Await()
}

// Credentials that have expired are read again.
func TestCredentialsThatExpire(t *testing.T) {
	b, s, _ := newFaulty(t)
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(id string) {
		if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = "+id+"\naws_secret_access_key = hushhush\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SHARED_CREDENTIALS_FILE": file} {
		t.Setenv(name, value)
	}
	s.set(func() { s.secret = "one" })
	s.add(0, b.Lines(20)...)
	b.Start()
	b.Await()
	s.set(func() { s.secret = "two" })
	b.Trouble("the server refuses the credentials (ExpiredTokenException)")
	s.add(0, b.Lines(20)...)
	write("two")
	b.Await()
	if strings.Contains(b.Said.String(), "hushhush") {
		t.Error(b.Said.String())
	}
}

// Answers that no server gives stop the source with an error, and nothing counts twice.
func TestAnswersThatCannotBe(t *testing.T) {
	change := func(key string, to any) func(string, map[string]any) {
		return func(_ string, answer map[string]any) {
			if _, has := answer[key]; has {
				answer[key] = to
			}
		}
	}
	record := func(sequence string) []any {
		return []any{map[string]any{"SequenceNumber": sequence, "Data": []byte("a"), "PartitionKey": "a"}}
	}
	for want, answers := range map[string]func(string, map[string]any){
		`"12a" is not the sequence number`: change("Records", record("12a")),
		`"" is not the sequence number`:    change("Records", record("")),
		"the server gives no iterator":     change("ShardIterator", ""),
		"the server lists no shard":        change("Shards", []any{}),
		"is not the name of a shard":       change("Shards", []any{map[string]any{"ShardId": strings.Repeat("a", 1000)}}),
		"the server lists shards without an end": func(operation string, answer map[string]any) {
			if operation == "ListShards" {
				answer["NextToken"] = "again"
			}
		},
		"http: request body too large": func(operation string, answer map[string]any) {
			if operation == "GetRecords" {
				answer["Records"] = []any{map[string]any{"SequenceNumber": "1", "Data": make([]byte, 33<<20), "PartitionKey": "a"}}
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			b, s, _ := newFaulty(t)
			s.add(0, b.Lines(20)...)
			s.set(func() { s.answers = answers })
			b.Start()
			b.Trouble(want)
			s.set(func() { s.answers = nil })
			b.Await()
		})
	}

	b, s, _ := newFaulty(t)
	s.add(0, b.Lines(20)...)
	s.set(func() {
		s.answers = func(_ string, answer map[string]any) {
			if records, is := answer["Records"].([]any); is {
				answer["Records"] = append(slices.Clone(records), records...)
			}
		}
	})
	b.Start()
	b.Await()
}

// A shard is not asked more often than it allows, nor by one collector alone.
func TestPace(t *testing.T) {
	b, s, _ := newFaulty(t)
	began := time.Now()
	b.Start()
	for range 20 {
		s.add(0, b.Lines(5)...)
		b.Sink.Await(t, b.Want)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := int(time.Since(began)/(250*time.Millisecond)) + 1; s.calls["GetRecords"] > most {
		t.Errorf("%d calls, and %d are the most", s.calls["GetRecords"], most)
	}
}

// aggregated is a record as the producer library of Amazon makes it, of lines with their keys.
func aggregated(lines []string, keys ...string) []byte {
	var message []byte
	for _, key := range keys {
		message = protowire.AppendString(protowire.AppendTag(message, 1, protowire.BytesType), key)
	}
	for i, line := range lines {
		user := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(i%len(keys)))
		user = protowire.AppendString(protowire.AppendTag(user, 3, protowire.BytesType), line)
		message = protowire.AppendBytes(protowire.AppendTag(message, 3, protowire.BytesType), user)
	}
	sum := md5.Sum(message)
	return slices.Concat([]byte{0xf3, 0x89, 0x9a, 0xc2}, message, sum[:])
}

// Aggregated records count by their user records, also if the collector stops in the midst of one. Those whose keys are
// of another shard are sent there again by the producer, and do not count here.
func TestAggregatedRecords(t *testing.T) {
	b, s, _ := newFaulty(t)
	s.set(func() {
		s.answers = func(operation string, answer map[string]any) {
			if operation == "ListShards" { // one of two halves
				answer["Shards"].([]any)[0].(map[string]any)["HashKeyRange"] = map[string]any{"StartingHashKey": "0", "EndingHashKey": "170141183460469231731687303715884105727"}
			}
		}
	})
	s.add(0, string(aggregated(b.Lines(10), "b", "d"))) // their hashes begin with 92 and 82
	clear(b.Want)
	const low = "a" // 0c
	s.add(0, b.Lines(1)...)
	s.add(0, string(aggregated(b.Lines(5000), low)))
	s.add(0, string(aggregated(b.Unread(3), low, "b")[:30])) // is a line that is no request
	s.add(0, b.Lines(1)...)
	b.Sink.Set(func() { b.Sink.Mute = true })
	b.Start()
	wait.Until(t, "the first part of a record to be read", func() bool {
		logs := b.Status().Logs
		return len(logs) == 1 && logs[0].Position > 2000
	})
	b.restart(func() {})
	b.Sink.Unmute()
	damaged := aggregated(b.Unread(10), low)
	damaged[len(damaged)-1]++
	s.add(0, string(damaged))
	s.add(0, string(aggregated(slices.Repeat([]string{"x"}, 1<<16+1), low)))
	s.add(0, b.Lines(1)...)
	b.Await()
}

// A key that all user records share is hashed once: a record as long as Kinesis allows is not read for minutes.
func TestALongKeyOfManyUserRecords(t *testing.T) {
	record := aggregated(slices.Repeat([]string{"x"}, 1<<16), strings.Repeat("k", 8<<20))
	kinesis.CheckSplit(t, record[4:len(record)-md5.Size])
}

func FuzzPlace(f *testing.F) {
	for _, text := range []string{"", "@1", "495", "495+3", "+", "@-1", "495+70000"} {
		f.Add(text)
	}
	f.Fuzz(kinesis.CheckPlace)
}

func FuzzAggregated(f *testing.F) {
	f.Add(aggregated([]string{"a", "b"}, "c"))
	f.Add([]byte{0xf3, 0x89, 0x9a, 0xc2})
	f.Add([]byte(streams.Line(1)))
	f.Fuzz(kinesis.CheckSplit)
}
