package kinesis_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	server "weir/test/kinesis"
	"weir/test/streams"
)

const benchRecords = 100_000

// BenchmarkRecords measures a collector that reads the records of a shard and counts their lines, and a bare client of
// the same library that only fetches them, as fast as kinesalite gives them.
//
//	go test -run '^$' -bench Records -benchtime 3x ./pkg/collector/kinesis
func BenchmarkRecords(b *testing.B) {
	login(b, server.Secret)
	s := server.Start(b, 1)
	lines := make([]string, benchRecords)
	for n := range lines {
		lines[n] = streams.Line(n)
	}
	s.Add(lines)

	measure := func(name string, read func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			before := streams.ProcessorTime(b)
			for b.Loop() {
				read(b)
			}
			lines := float64(b.N) * benchRecords
			b.ReportMetric(lines/b.Elapsed().Seconds(), "lines/s")
			b.ReportMetric((streams.ProcessorTime(b)-before).Seconds()/lines*1e6, "cpu-s/million")
		})
	}
	measure("weir", func(b *testing.B) {
		c := newBench(b, s)
		c.Start()
		for c.Status().Requests < benchRecords {
			time.Sleep(20 * time.Millisecond) // asking often takes CPU, too
		}
		c.Stop()
	})
	measure("bare-client", func(b *testing.B) { readBare(b, s) })
}

// readBare fetches all records.
func readBare(b *testing.B, s *server.Server) {
	b.Helper()
	ctx := context.Background()
	begin, err := s.Client.GetShardIterator(ctx, &sdk.GetShardIteratorInput{
		StreamName: aws.String("logs"), ShardId: aws.String(server.Shard(0)), ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	if err != nil {
		b.Fatal(err)
	}
	iterator := begin.ShardIterator
	for read := 0; read < benchRecords; {
		answer, err := s.Client.GetRecords(ctx, &sdk.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(10_000)})
		if err != nil {
			b.Fatal(err)
		}
		read += len(answer.Records)
		iterator = answer.NextShardIterator
	}
}
