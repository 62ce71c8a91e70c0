package enforcer

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/pkg/blocklist"
	"weir/pkg/blocklist/follow"
)

// BenchmarkMillionEntries measures how an enforcer gets a list of a million entries without Kafka: from the file of the
// last complete list, and from another enforcer over HTTP. For comparison it reads and hashes, or fetches, the same
// bytes and does nothing with them. The CPU seconds over HTTP are those of both sides.
func BenchmarkMillionEntries(b *testing.B) {
	set := thousands(b, 1000)
	path := filepath.Join(b.TempDir(), "list")
	measure := func(name string, do func() error) {
		b.Run(name, func(b *testing.B) {
			before := cpuUsed(b)
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpuUsed(b)-before).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
	now := time.Now().UnixMilli()
	measure("save", func() error {
		_, err := follow.Save(path, set, now)
		return err
	})
	measure("file-hashed", func() error { return hashed(path) })
	measure("load", func() error { return follow.Load(path, blocklist.NewSet(blocklist.Limits{}), now) })
	r := start(b, set, func(c *Config) { c.Logger = quiet })
	url := "http://" + r.Address()
	measure("http-fetched", func() error { return fetched(url + "/v1/blocklist") })
	measure("http-followed", func() error { return followed(b.Context(), url, set.Version()) })
}

func hashed(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(xxhash.New(), file)
	return err
}

func fetched(url string) error {
	request, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", blocklist.ContentBinary)
	request.Header.Set("Accept-Encoding", "identity")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// followed makes an empty follower follow an enforcer until it has a version.
func followed(ctx context.Context, url string, version blocklist.Version) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	set := blocklist.NewSet(blocklist.Limits{})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	f, err := follow.NewFromUpstream(follow.Config{Set: set}, follow.Upstream{URL: url, Client: &http.Client{Transport: transport}})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { f.Run(ctx) })
	defer cancel()
	for changed := set.Changed(); set.Version() != version; changed = set.Changed() {
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%+v", f.Status())
		}
	}
	return nil
}

func cpuUsed(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
