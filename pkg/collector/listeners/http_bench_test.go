package listeners

import (
	"io"
	"strings"
	"testing"
)

// Bodies of a thousand lines, one after the other, each answered before the next.
func BenchmarkHTTPPost(b *testing.B) {
	const lines = 1000
	for name, encoding := range map[string]string{"lines": "", "gzip": "gzip"} {
		b.Run(name, func(b *testing.B) {
			bench := newHTTPBench(b)
			bench.start()
			text := bench.body(lines)
			compressed, _ := io.ReadAll(zipped(text))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				body := text
				if encoding != "" {
					body = string(compressed)
				}
				if reply := bench.post(strings.NewReader(body), "Content-Encoding", encoding); reply.status != 200 {
					b.Fatalf("%+v", reply)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/lines, "ns/line")
		})
	}
}
