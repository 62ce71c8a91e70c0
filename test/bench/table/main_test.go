package main

import (
	"io"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	const said = `goos: linux
BenchmarkPeers
BenchmarkPeers/gawk
BenchmarkPeers/gawk-2  1  120323510 ns/op  87.50 %found  335.2 MiB  2.226 cpu-s/million  50000 lines  470000 lines/s  0 wrong
--- SKIP: BenchmarkPeers/crowdsec
BenchmarkPeers/gawk-2  1  110323510 ns/op  87.50 %found  335.4 MiB  2.004 cpu-s/million  50000 lines  416430 lines/s  0 wrong
BenchmarkPeers/gawk-2  1  100323510 ns/op  87.50 %found  335.3 MiB  2.101 cpu-s/million  50000 lines  426430 lines/s  0 wrong
BenchmarkRiver/weir-2  1  7511720377 ns/op  12.3 cpu-s/million  0.51 kafka-cpu-s/million  0.02 redis-cpu-s/million  3000000 lines/s  99.96 %timed
BenchmarkPeers/slow  1  7511720377 ns/op  1234 lines/s
PASS
`
	const want = `| program | lines/s | CPU s per million | of Kafka | of Redis | peak MiB | found | at the right second | wrong |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| Peers/gawk | 426 k (416 k to 470 k) | 2.10 (2.00 to 2.23) |  |  | 335 | 88% |  | 0 |
| River/weir | 3.0 M | 12 | 0.51 | 0.02 |  |  | 99.96% |  |
| Peers/slow | 1.2 k |  |  |  |  |  |  |  |
`
	var out, progress strings.Builder
	if code := run(strings.NewReader(said), &out, &progress); code != 0 {
		t.Errorf("code %d", code)
	}
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	if progress.String() != said {
		t.Error("not all went on")
	}
}

func TestTableOfShares(t *testing.T) {
	const said = "BenchmarkLive/lines=500/weir-apart-2  1  33917505103 ns/op  5.299 %core-collector  0.4000 %core-enforcer  14.40 %core-own  100.0 %found  3.695 p50-ms  138.7 p99-ms\n"
	const want = `| program | found | CPU, % of a core | of the collector | enforcer | p50 ms | p99 ms |
| --- | --- | --- | --- | --- | --- | --- |
| Live/lines=500/weir-apart | 100% | 14.4 | 5.3 | 0.4 | 4 | 139 |
`
	var out strings.Builder
	if code := run(strings.NewReader(said), &out, io.Discard); code != 0 || out.String() != want {
		t.Errorf("code %d\n%s\nwant\n%s", code, out.String(), want)
	}
}

func TestNothingPrinted(t *testing.T) {
	var out strings.Builder
	if run(strings.NewReader("PASS\n"), &out, io.Discard) != 1 || out.String() != "" {
		t.Error("a table of nothing")
	}
}
