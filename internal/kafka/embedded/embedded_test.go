package embedded_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/internal/kafka"
	"weir/internal/kafka/embedded"
	"weir/internal/topic"
	"weir/test/real"
)

// TestMain lets the test binary be the process that TestKill kills.
func TestMain(m *testing.M) {
	if folder := os.Getenv("WEIR_TEST_BROKER"); folder != "" {
		produceForEver(folder)
	}
	os.Exit(m.Run())
}

func open(t *testing.T, config embedded.Config) *embedded.Broker {
	t.Helper()
	broker, err := embedded.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return broker
}

func connect(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) *kafka.Client {
	t.Helper()
	client, err := kafka.Open(kafka.Config{Brokers: []string{kafka.Embedded}, Dial: dial, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func ensure(t *testing.T, client *kafka.Client, settings map[string]string) {
	t.Helper()
	if err := client.EnsureTopics(t.Context(), topic.Topic{Name: "hits", Partitions: 1, Settings: settings}); err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, client *kafka.Client, count, bytes int) {
	t.Helper()
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: 1})
	for range count {
		if err := producer.Send(t.Context(), topic.Message{Value: make([]byte, bytes)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := producer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func span(t *testing.T, client *kafka.Client) topic.Span {
	t.Helper()
	spans, err := client.Offsets(t.Context(), "hits")
	if err != nil {
		t.Fatal(err)
	}
	return spans[0]
}

// Acknowledged and committed records are there after a restart, synced or not; Close ends all goroutines.
func TestRestart(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprint(sync), func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			config := embedded.Config{Folder: filepath.Join(t.TempDir(), "kafka"), SyncWrites: sync}
			broker := open(t, config)
			client := connect(t, broker.Dial)
			ensure(t, client, nil)
			produce(t, client, 100, 10)
			commit(t, client, 60)
			client.Close()
			broker.Close()
			broker = open(t, config)
			defer broker.Close()
			client = connect(t, broker.Dial)
			defer client.Close()
			if got := span(t, client); got != (topic.Span{End: 100}) {
				t.Errorf("the log has %+v", got)
			}
			if commits, err := client.Committed(t.Context(), "g", "hits"); err != nil || commits[0] != (topic.Commit{Offset: 60, Metadata: "m"}) {
				t.Errorf("committed is %+v, %v", commits, err)
			}
			commit(t, client, 61)
		})
	}
}

// commit joins a group and commits.
func commit(t *testing.T, client *kafka.Client, offset int64) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
	err := client.RunGroup(ctx, topic.Group{Name: "g", Topics: map[string]int{"hits": 1}}, func(ctx context.Context, claim *topic.Claim) error {
		defer leave()
		return claim.Commit(context.WithoutCancel(ctx), topic.Commit{Offset: offset, Metadata: "m"})
	})
	if err != nil || context.Cause(ctx) == context.DeadlineExceeded {
		t.Fatal(err, context.Cause(ctx))
	}
}

// produceForEver is the process that TestKill kills: it writes down every offset that was acknowledged.
func produceForEver(folder string) {
	broker, err := embedded.Open(embedded.Config{Folder: folder})
	if err != nil {
		panic(err)
	}
	client, err := kafka.Open(kafka.Config{Brokers: []string{kafka.Embedded}, Dial: broker.Dial, Create: true})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	if err := client.EnsureTopics(ctx, topic.Topic{Name: "hits", Partitions: 1}); err != nil {
		panic(err)
	}
	go client.RunGroup(ctx, topic.Group{Name: "g", Topics: map[string]int{"hits": 1}}, func(ctx context.Context, _ *topic.Claim) error {
		<-ctx.Done()
		return nil
	})
	producer := client.OpenProducer(topic.AppenderConfig{Topic: "hits", Partitions: 1, QueueBytes: 100_000})
	for {
		producer.Send(ctx, topic.Message{Value: make([]byte, 1000), Done: func(offset int64, _ error) { fmt.Println(offset) }})
	}
}

// A kill loses nothing that was acknowledged, and leaves no ghost in the groups.
func TestKill(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "kafka")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "WEIR_TEST_BROKER="+folder)
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := int64(-1)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if acknowledged > 20_000 {
			child.Process.Kill()
		}
		fmt.Sscan(lines.Text(), &acknowledged)
	}
	child.Wait()
	broker := open(t, embedded.Config{Folder: folder})
	defer broker.Close()
	client := connect(t, broker.Dial)
	defer client.Close()
	if got := span(t, client); got.Start != 0 || got.End <= acknowledged {
		t.Fatalf("%d was acknowledged, and the log has %+v", acknowledged, got)
	}
	reader := client.NewReader("hits", 0, 0)
	for reader.Next() <= acknowledged {
		if _, err := reader.Fetch(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	commit(t, client, acknowledged)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("joining took %s", took)
	}
}

// Retention runs after a restart too, though nothing changes.
func TestRetention(t *testing.T) {
	config := embedded.Config{Folder: t.TempDir()}
	broker := open(t, config)
	client := connect(t, broker.Dial)
	ensure(t, client, map[string]string{"retention.bytes": "1000000"})
	produce(t, client, 1500, 10_000) // more than a segment
	client.Close()
	broker.Close()
	config.RetainEvery = 10 * time.Millisecond
	broker = open(t, config)
	defer broker.Close()
	client = connect(t, broker.Dial)
	defer client.Close()
	for span(t, client).Start == 0 {
		if t.Context().Err() != nil {
			t.Fatal("nothing was deleted")
		}
	}
	var kept int64
	filepath.WalkDir(config.Folder, func(_ string, entry os.DirEntry, _ error) error {
		if info, err := entry.Info(); err == nil && !entry.IsDir() {
			kept += info.Size()
		}
		return nil
	})
	if kept > 10_000_000 {
		t.Errorf("%d bytes are still on the disk", kept)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	config := embedded.Config{Folder: t.TempDir()}
	broker := open(t, config)
	if _, err := embedded.Open(config); err == nil || !strings.Contains(err.Error(), "is in use by another process") {
		t.Errorf("a second one: %v", err)
	}
	broker.Close()
	if _, err := broker.Dial(t.Context(), "", ""); err == nil || err.Error() != "the embedded broker has ended" {
		t.Errorf("after its end: %v", err)
	}
	open(t, config).Close()
}

// A folder that lost a file of its own is refused with a remedy, and nothing is appended to its data.
func TestADamagedFolder(t *testing.T) {
	for name, damage := range map[string]func(file string) error{
		"meta.json is gone":       func(file string) error { return os.Remove(filepath.Join(file, "meta.json")) },
		"topics.json is cut":      func(file string) error { return os.Truncate(filepath.Join(file, "topics.json"), 10) },
		"meta.json is a few NULs": func(file string) error { return os.WriteFile(filepath.Join(file, "meta.json"), make([]byte, 9), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			config := embedded.Config{Folder: filepath.Join(t.TempDir(), "broker")}
			broker := open(t, config)
			client := connect(t, broker.Dial)
			ensure(t, client, nil)
			produce(t, client, 10, 10)
			client.Close()
			broker.Close()
			if err := damage(config.Folder); err != nil {
				t.Fatal(err)
			}
			if broker, err := embedded.Open(config); err == nil || !strings.Contains(err.Error(), "move the folder away") {
				t.Fatalf("%v, %v", broker, err)
			}
			if err := os.Rename(config.Folder, config.Folder+".damaged"); err != nil {
				t.Fatal(err)
			}
			open(t, config).Close()
		})
	}
}

func TestNoPortUnlessAsked(t *testing.T) {
	before := listening(t)
	broker := open(t, embedded.Config{Folder: t.TempDir()})
	defer broker.Close()
	if after := listening(t); after != before || broker.Address() != "" {
		t.Errorf("%d sockets listened, and then %d; the address is %q", before, after, broker.Address())
	}
	for _, address := range []string{"0.0.0.0:0", "192.0.2.1:0", "localhost:0"} {
		if _, err := embedded.Open(embedded.Config{Folder: t.TempDir(), Listen: address}); err == nil || !strings.Contains(err.Error(), "loopback addresses only") {
			t.Errorf("listening on %s: %v", address, err)
		}
	}
}

// listening counts this process's listening TCP sockets.
func listening(t *testing.T) int {
	mine := map[string]bool{}
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		real.Missing(t, "there is no /proc here: mount -t proc proc /proc")
	}
	for _, descriptor := range descriptors {
		link, _ := os.Readlink("/proc/self/fd/" + descriptor.Name())
		mine[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] = true
	}
	count := 0
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, _ := os.ReadFile(table)
		for _, line := range strings.Split(string(content), "\n") {
			if fields := strings.Fields(line); len(fields) > 9 && fields[3] == "0A" && mine[fields[9]] {
				count++
			}
		}
	}
	return count
}

// Other processes connect by a socket or by loopback, and nothing that they send ends ours.
func TestGate(t *testing.T) {
	for name, listen := range map[string]string{"unix": filepath.Join(t.TempDir(), "kafka.sock"), "tcp": "127.0.0.1:0"} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			broker := open(t, embedded.Config{Folder: t.TempDir(), Listen: listen})
			defer broker.Close()
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, name, broker.Address())
			}
			client := connect(t, dial)
			defer client.Close()
			ensure(t, client, nil)
			produce(t, client, 10, 10)
			for what, frame := range map[string][]byte{
				"an unknown API key": frame(20, 9999), "an absurd size": {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0},
				"no request": frame(4, 3), "HTTP": []byte("GET / HTTP/1.1\r\n\r\n"),
			} {
				conn, err := dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				conn.Write(frame)
				if answer, err := io.ReadAll(conn); len(answer) > 0 {
					t.Errorf("%s was answered with %q, %v", what, answer, err)
				}
				conn.Close()
			}
			if got := span(t, client); got.End != 10 {
				t.Errorf("the log has %+v", got)
			}
			if name == "unix" {
				if info, err := os.Stat(listen); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("the socket is open to others: %v, %v", info.Mode(), err)
				}
				return
			}
			direct, err := kafka.Open(kafka.Config{Brokers: []string{broker.Address()}})
			if err != nil {
				t.Fatal(err)
			}
			defer direct.Close()
			if cluster, err := direct.Cluster(t.Context()); err != nil || cluster.Brokers[0] != broker.Address() {
				t.Errorf("by its address: %+v, %v", cluster, err)
			}
		})
	}
}

// frame returns a request of the given size with an API key, and zeros.
func frame(size, key int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(size))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	return append(b, make([]byte, max(size, 10)-2)...)
}
