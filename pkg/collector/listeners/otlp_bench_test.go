package listeners

import (
	"testing"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// BenchmarkOTLP is one export of 1,000 log records over gRPC, from gRPC's own client, until it is acknowledged. The
// library's client takes part of the time.
func BenchmarkOTLP(b *testing.B) {
	bench := newOTLPBench(b)
	bench.start()
	client := bench.dial(insecure.NewCredentials())
	export := bench.export(1000)
	b.SetBytes(int64(proto.Size(export)))
	for b.Loop() {
		if _, err := client.Export(b.Context(), export); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
}
