package cidr

import "testing"

func BenchmarkDisjointOfAMillion(b *testing.B) {
	blocks := million()
	b.ReportAllocs()
	for b.Loop() {
		Disjoint(blocks)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(blocks)), "ns/block")
}
