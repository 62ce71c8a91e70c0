package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/test/wait"
)

// Another process sees what the process with the folder sees, and can write nothing.
func TestALogOfAnotherProcess(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir())
	socket := filepath.Join(t.TempDir(), "s")
	server, err := l.Serve(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	remote := Dial(socket)
	defer remote.Close()

	hits := topic.Topic{Name: "hits", Partitions: 1, Settings: map[string]string{"retention.bytes": "30000"}}
	if err := l.EnsureTopics(ctx, hits); err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		send(t, l, "hits", topic.Message{Key: fmt.Append(nil, n), Value: bytes.Repeat([]byte{byte(n)}, n*20)})
	}
	member, leave := context.WithCancel(ctx)
	if err := l.RunGroup(member, topic.Group{Name: "g", Topics: map[string]int{"hits": 1}}, func(ctx context.Context, claim *topic.Claim) error {
		defer leave()
		return claim.Commit(ctx, topic.Commit{Offset: 60, Metadata: "m"})
	}); err != nil {
		t.Fatal(err)
	}
	for spanOf(t, l, "hits").Start == 0 {
		time.Sleep(time.Millisecond)
	}
	l.mu.Lock() // from now on nothing is deleted
	l.topics["hits"].Settings = nil
	l.mu.Unlock()
	time.Sleep(100 * time.Millisecond)

	for what, ask := range map[string]func(topic.Log) (any, error){
		"cluster":      func(l topic.Log) (any, error) { return l.Cluster(ctx) },
		"settings":     func(l topic.Log) (any, error) { return l.TopicSettings(ctx, "hits") },
		"identity":     func(l topic.Log) (any, error) { return l.Reader("hits", 0, 0, 0).Identity(ctx) },
		"unidentified": func(l topic.Log) (any, error) { return l.Reader("none", 0, 0, 0).Identity(ctx) },
		"partitions":   func(l topic.Log) (any, error) { return l.Partitions(ctx, "hits") },
		"offsets":      func(l topic.Log) (any, error) { return l.Offsets(ctx, "hits") },
		"span":         func(l topic.Log) (any, error) { return l.PartitionSpan(ctx, "hits", 0) },
		"no partition": func(l topic.Log) (any, error) { return l.PartitionSpan(ctx, "hits", 1) },
		"no topic":     func(l topic.Log) (any, error) { return l.Offsets(ctx, "none") },
		"time":         func(l topic.Log) (any, error) { return l.OffsetAt(ctx, "hits", 0, time.Now().Add(-time.Hour)) },
		"committed":    func(l topic.Log) (any, error) { return l.Committed(ctx, "g", "hits") },
		"groups":       func(l topic.Log) (any, error) { return l.Groups(ctx, "g", "other") },
		"topics": func(l topic.Log) (any, error) {
			return nil, l.EnsureTopics(ctx, topic.Topic{Name: "hits", Partitions: 2})
		},
		"records":      func(l topic.Log) (any, error) { return everything(l, spanOf(t, server.log, "hits")) },
		"trimmed":      func(l topic.Log) (any, error) { return fetched(l.Reader("hits", 0, 0, 0)) },
		"past the end": func(l topic.Log) (any, error) { return fetched(l.Reader("hits", 0, 200, 0)) },
		"at the end":   func(l topic.Log) (any, error) { return fetched(l.Reader("hits", 0, 100, 0)) },
	} {
		want, wantErr := ask(l)
		got, err := ask(remote)
		if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) || err != nil && topic.KindOf(err) != topic.KindOf(wantErr) {
			t.Errorf("%s: %v, %v, want %v, %v", what, got, err, want, wantErr)
		}
	}

	if err := remote.RunGroup(ctx, topic.Group{Name: "g"}, nil); !errors.Is(err, topic.ErrForbidden) {
		t.Error(err)
	}
	if err := remote.Appender(topic.AppenderConfig{Topic: "hits"}).Send(ctx, topic.Message{}); !errors.Is(err, topic.ErrForbidden) {
		t.Error(err)
	}
	for _, query := range []string{"", "partition=x&from=0&most=1", "topic=hits&partition=-1&from=0&most=1", "topic=hits&partition=0&from=-9&most=1", "topic=hits&partition=99999999999999&from=0&most=1"} {
		values, _ := url.ParseQuery(query)
		if _, _, err := remote.get(ctx, "/records", values); err == nil {
			t.Errorf("%q is answered", query)
		}
	}
	if _, _, err := remote.get(ctx, "/unknown", nil); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Error(err)
	}
	server.Close()
	if _, err := remote.Offsets(ctx, "hits"); !errors.Is(err, topic.ErrUnreachable) {
		t.Errorf("without the process: %v", err)
	}
}

// A fetchResult is what a reader says.
type fetchResult struct {
	Records int
	Next    int64
	Span    topic.Span
}

func fetched(r topic.Reader) (fetchResult, error) {
	records, err := r.Fetch(ctx)
	return fetchResult{len(records), r.Next(), r.Span()}, err
}

func everything(l topic.Log, span topic.Span) (all []string, err error) {
	for r := l.Reader("hits", 0, span.Start, 5000); r.Next() < span.End; {
		records, err := r.Fetch(ctx)
		if err != nil {
			return all, err
		}
		for _, r := range records {
			all = append(all, fmt.Sprintf("%d %d %s %x", r.Offset, r.Time.UnixMilli(), r.Key, r.Value))
		}
	}
	return all, nil
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(_ *testing.T, b []byte) { _, _, _ = readAnswer(b) })
}

// Commands reach the topics again when the socket was deleted, alone or with its folder, or replaced by a copy of it.
func TestTheSocketForCommandsComesBack(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir())
	folder := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, "s")
	server, err := l.Serve(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()

	answers := func() bool {
		remote := Dial(socket)
		defer remote.Close()
		_, err := remote.Cluster(ctx)
		return err == nil
	}
	wait.Until(t, "answered", answers)
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "answered after the socket was deleted", answers)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * lookAtSocket) // it cannot be made while the folder is missing
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "answered after the folder was made again", answers)

	// A socket on which no process listens, as in a copy of the folder. The server may make its own again before us.
	var left *net.UnixListener
	wait.Until(t, "replaced", func() bool {
		os.Remove(socket)
		left, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
		return err == nil
	})
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "answered after the socket was replaced", answers)
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
