package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"weir/internal/topic"
	"weir/internal/topic/topictest"
)

// BenchmarkSync is the physical limit of appending: a write of 4 KiB over a file that is there, and fdatasync.
func BenchmarkSync(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 4096)
	for range 1024 {
		if _, err := file.Write(block); err != nil {
			b.Fatal(err)
		}
	}
	if err := file.Sync(); err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		if _, err := file.WriteAt(block, int64(n%1024)*4096); err != nil {
			b.Fatal(err)
		}
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLocal(b *testing.B) {
	topictest.Benchmark(b, true, func(b *testing.B) topic.Log { return open(b, b.TempDir()) })
}

// BenchmarkReadOld reads what is not in memory any more.
func BenchmarkReadOld(b *testing.B) {
	for _, size := range []int{250, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := open(b, b.TempDir())
			l.tails.most = 1
			const total = 64 << 20
			if err := l.EnsureTopics(b.Context(), topic.Topic{Name: "hits", Partitions: 1}); err != nil {
				b.Fatal(err)
			}
			a := l.NewAppender(topic.AppenderConfig{Topic: "hits", Partitions: 1})
			for range total / size {
				if err := a.Send(b.Context(), topic.Message{Value: topictest.Value(size)}); err != nil {
					b.Fatal(err)
				}
			}
			if err := a.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(total / size * size))
			b.ReportAllocs()
			for b.Loop() {
				for r := l.Reader("hits", 0, 0, 0); r.Next() < int64(total/size); {
					if _, err := r.Fetch(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
