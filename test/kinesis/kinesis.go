// Package kinesis runs kinesalite for tests. It stands in for Amazon Kinesis: with sequence numbers as Amazon's, shards
// that are split and merged, and records on the disk. Its readers are never refused for reading too much.
package kinesis

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// The region, the user and the secret of all servers.
const (
	Region = "eu-central-1"
	User   = "weir"
	Secret = "weirweir"
)

const stream = "logs"

// A Server is a server with a stream named logs.
type Server struct {
	Endpoint string
	Client   *kinesis.Client

	t       testing.TB
	program string
	address string
	folder  string
	process *os.Process
	ended   chan string // has why the process ended
}

// Start starts a server, whose stream has some shards.
func Start(t testing.TB, shards int) *Server {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	edges := filepath.Join(cache, "weir", "edges") // where .ci/run installs it
	program := filepath.Join(edges, "node_modules", "kinesalite", "cli.js")
	if _, err := os.Stat(program); err != nil {
		real.Missing(t, "kinesalite is missing: npm install --prefix "+edges+" kinesalite@3.3.3")
	}
	s := At(t, "http://"+port.Reserve(t, "127.0.0.1"))
	s.program, s.address, s.folder = program, strings.TrimPrefix(s.Endpoint, "http://127.0.0.1:"), t.TempDir()
	s.Restart()
	t.Cleanup(s.Kill)
	s.Make(shards)
	return s
}

// At is a server that runs already.
func At(t testing.TB, endpoint string) *Server {
	return &Server{t: t, Endpoint: endpoint, Client: kinesis.New(kinesis.Options{
		Region: Region, BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider(User, Secret, ""),
	})}
}

// Restart starts the server after Kill, and returns when it answers. It is started again where it ends by itself: its port
// may be that of another connection for a moment.
func (s *Server) Restart() {
	s.t.Helper()
	s.start()
	wait.Until(s.t, "kinesalite to answer", func() bool {
		select {
		case why := <-s.ended:
			s.t.Logf("kinesalite ended: %s", why)
			s.start()
		default:
		}
		_, err := s.Client.ListStreams(context.Background(), &kinesis.ListStreamsInput{})
		return err == nil
	})
}

func (s *Server) start() {
	s.t.Helper()
	command := exec.Command("node", s.program, "--port", s.address, "--path", s.folder, "--createStreamMs", "10",
		"--deleteStreamMs", "10", "--updateStreamMs", "10", "--shardLimit", "100")
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.process, s.ended = command.Process, make(chan string, 1)
	go func() { s.ended <- fmt.Sprint(command.Wait()) }()
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() {
	if s.process != nil {
		_ = s.process.Kill()
		<-s.ended
		s.process = nil
	}
}

// Make makes the stream.
func (s *Server) Make(shards int) {
	s.t.Helper()
	_, err := s.Client.CreateStream(s.t.Context(), &kinesis.CreateStreamInput{StreamName: aws.String(stream), ShardCount: aws.Int32(int32(shards))})
	s.must(err)
	s.settle()
}

// settle waits until a change of the stream is done.
func (s *Server) settle() {
	s.t.Helper()
	wait.Until(s.t, "the stream to be active", func() bool {
		now, err := s.Client.DescribeStreamSummary(s.t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String(stream)})
		return err == nil && now.StreamDescriptionSummary.StreamStatus == types.StreamStatusActive
	})
}

// Delete deletes the stream.
func (s *Server) Delete() {
	s.t.Helper()
	_, err := s.Client.DeleteStream(s.t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String(stream)})
	s.must(err)
	wait.Until(s.t, "the stream to be gone", func() bool {
		_, err := s.Client.DescribeStreamSummary(s.t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String(stream)})
		return err != nil
	})
}

// Add writes a record for each line, with its first word as its key.
func (s *Server) Add(lines []string) {
	s.t.Helper()
	for len(lines) > 0 {
		some := lines[:min(500, len(lines))]
		lines = lines[len(some):]
		input := &kinesis.PutRecordsInput{StreamName: aws.String(stream)}
		for _, line := range some {
			key, _, _ := strings.Cut(line, " ")
			input.Records = append(input.Records, types.PutRecordsRequestEntry{PartitionKey: &key, Data: []byte(line)})
		}
		done, err := s.Client.PutRecords(context.Background(), input)
		s.must(err)
		if refused := aws.ToInt32(done.FailedRecordCount); refused > 0 {
			s.t.Fatalf("the server refuses %d records", refused)
		}
	}
}

// Put writes one record.
func (s *Server) Put(key string, data []byte) {
	s.t.Helper()
	_, err := s.Client.PutRecord(s.t.Context(), &kinesis.PutRecordInput{StreamName: aws.String(stream), PartitionKey: &key, Data: data})
	s.must(err)
}

// Split splits a shard; the second half of its keys begins at a hash.
func (s *Server) Split(shard int, at string) {
	s.t.Helper()
	_, err := s.Client.SplitShard(s.t.Context(), &kinesis.SplitShardInput{StreamName: aws.String(stream), ShardToSplit: aws.String(Shard(shard)), NewStartingHashKey: &at})
	s.must(err)
	s.settle()
}

// Merge merges two shards.
func (s *Server) Merge(one, other int) {
	s.t.Helper()
	_, err := s.Client.MergeShards(s.t.Context(), &kinesis.MergeShardsInput{StreamName: aws.String(stream), ShardToMerge: aws.String(Shard(one)), AdjacentShardToMerge: aws.String(Shard(other))})
	s.must(err)
	s.settle()
}

// Shard is the name of a shard.
func Shard(n int) string { return fmt.Sprintf("shardId-%012d", n) }

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
