package enforcer

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/test/wait"
)

// BenchmarkThousandFollowers measures how long a new entry takes to a thousand waiting followers over TCP, to the last
// byte of the answer: the 50th and the 99th percentile of all of them.
func BenchmarkThousandFollowers(b *testing.B) {
	set := thousands(b, 10)
	r := start(b, set, func(c *Config) { c.Logger = quiet })
	const followers = 1000
	conns := make([]net.Conn, followers)
	for i := range conns {
		conn, err := net.Dial("tcp", r.Address())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
	}
	offset := int64(1 << 30)
	var all []time.Duration
	for b.Loop() {
		offset++
		all = append(all, r.told(b, conns, offset)...)
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}

// told makes all connections wait for a change, makes one, and returns how long each took to get it.
func (r *running) told(b *testing.B, conns []net.Conn, offset int64) []time.Duration {
	ask := fmt.Sprintf("GET /v1/blocklist?wait=30s&after=%s HTTP/1.1\r\nHost: e\r\nAccept: %s\r\n\r\n", r.config.Set.Version(), blocklist.ContentBinary)
	for _, conn := range conns {
		if _, err := io.WriteString(conn, ask); err != nil {
			b.Fatal(err)
		}
	}
	wait.Until(b, "all wait", func() bool { return r.following.Load() == int64(len(conns)) })
	took := make([]time.Duration, len(conns))
	var reading sync.WaitGroup
	began := time.Now()
	for i, conn := range conns {
		reading.Go(func() {
			room := make([]byte, 16<<10)
			for n := 0; n < len(room); {
				more, err := conn.Read(room[n:])
				if n += more; err != nil || isWhole(room[:n]) {
					break
				}
			}
			took[i] = time.Since(began)
		})
	}
	if err := r.config.Set.Apply(time.Now().UnixMilli(), changeOf(b, offset, ofIP("203.0.113.7"))); err != nil {
		b.Fatal(err)
	}
	reading.Wait()
	return took
}

// isWhole reports whether an answer with a length is complete.
func isWhole(text []byte) bool {
	head, body, found := strings.Cut(string(text), "\r\n\r\n")
	_, length, known := strings.Cut(head, "Content-Length: ")
	length, _, _ = strings.Cut(length, "\r\n")
	n, err := strconv.Atoi(length)
	return found && known && err == nil && len(body) >= n
}
