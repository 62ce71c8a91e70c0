package objects_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"weir/internal/bucket"
	"weir/pkg/collector"
	"weir/pkg/collector/files"
	"weir/pkg/collector/objects"
	"weir/pkg/collector/ordered"
	"weir/pkg/collector/pipeline"
	"weir/test/s3"
	"weir/test/streams"
)

const (
	benchObjects = 80
	benchLines   = 5000 // in each
)

// BenchmarkObjects measures a collector that reads objects and counts their lines, one that reads files with the same
// bytes, and a bare client that only fetches the objects.
//
//	go test -run '^$' -bench Objects -benchtime 3x ./pkg/collector/objects
func BenchmarkObjects(b *testing.B) {
	server, folder := s3.Start(b), b.TempDir()
	b.Setenv("AWS_ACCESS_KEY_ID", s3.User)
	b.Setenv("AWS_SECRET_ACCESS_KEY", s3.Secret)
	size := int64(0)
	for n := range benchObjects {
		lines := make([]string, benchLines)
		for i := range lines {
			lines[i] = streams.Line(n*benchLines + i)
		}
		body := text(lines)
		size += int64(len(body))
		name := fmt.Sprintf("%03d.log", n)
		server.Put("web/"+name, body)
		if err := os.WriteFile(filepath.Join(folder, name), body, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	measure := func(name string, read func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			before := streams.ProcessorTime(b)
			for b.Loop() {
				read(b)
			}
			lines := float64(b.N) * benchObjects * benchLines
			b.ReportMetric(lines/b.Elapsed().Seconds(), "lines/s")
			b.ReportMetric((streams.ProcessorTime(b)-before).Seconds()/lines*1e6, "cpu-s/million")
		})
	}

	measure("weir", func(b *testing.B) {
		c := streams.New(b, "s3", func() ([]ordered.Log, error) {
			log, err := objects.Open(objects.Options{
				URL: "s3://logs/web/", Delay: time.Hour, Where: bucket.Options{Region: s3.Region, Endpoint: server.Endpoint},
			})
			return []ordered.Log{log}, err
		})
		c.Reads(size)
		c.Stop()
	})
	measure("weir-files", func(b *testing.B) {
		c := streams.New(b, "file", nil)
		c.Source = collector.SourceConfig{
			IntakeConfig: pipeline.IntakeConfig{Name: "logs", Envelope: "none", Format: "combined"},
			File:         &files.Config{Patterns: []string{filepath.Join(folder, "*.log")}},
		}
		c.Start()
		for c.Status().Requests < benchObjects*benchLines || !c.CaughtUp() {
			time.Sleep(time.Millisecond)
		}
		c.Stop()
	})
	measure("bare-client", func(b *testing.B) {
		ctx := context.Background()
		for n := range benchObjects {
			out, err := server.Client.GetObject(ctx, &sdk.GetObjectInput{Bucket: aws.String("logs"), Key: aws.String(fmt.Sprintf("web/%03d.log", n))})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, out.Body); err != nil {
				b.Fatal(err)
			}
			_ = out.Body.Close()
		}
	})
}
