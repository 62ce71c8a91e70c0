package redis

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"weir/internal/store/redis/redistest"
	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/stored"
)

func TestMain(m *testing.M) {
	if inlinetest.Child(func(url string) (stored.Backend, error) { return Open(Options{URL: url}) }) {
		return
	}
	goleak.VerifyTestMain(m)
}

var ctx = context.Background()

func open(t testing.TB, o Options) *Backend {
	t.Helper()
	return opened(t)(Open(o))
}

func openSorted(t testing.TB, o Options) *Backend {
	t.Helper()
	return opened(t)(OpenSorted(o))
}

func opened(t testing.TB) func(b *Backend, err error) *Backend {
	return func(b *Backend, err error) *Backend {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
}

func TestInRedis(t *testing.T) { inRedis(t, open, false) }

func TestInRedisWithSortedSets(t *testing.T) { inRedis(t, openSorted, true) }

func inRedis(t *testing.T, open func(testing.TB, Options) *Backend, brief bool) {
	inlinetest.RunBackend(t, func(t *testing.T) *inlinetest.BackendPlace {
		server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		return &inlinetest.BackendPlace{
			Open:   func(t testing.TB) stored.Backend { return open(t, Options{URL: "redis://" + server.Addr}) },
			Name:   "redis://" + server.Addr,
			Kill:   func() func() { server.Kill(); return server.Restart },
			Pause:  server.Pause,
			Forget: func() { server.Client.ScriptFlush(ctx) },
			Brief:  brief,
		}
	})
}

func TestInACluster(t *testing.T) { inACluster(t, open) }

func TestInAClusterWithSortedSets(t *testing.T) { inACluster(t, openSorted) }

func inACluster(t *testing.T, open func(testing.TB, Options) *Backend) {
	var addresses []string
	for _, node := range redistest.Cluster(t, 3) {
		addresses = append(addresses, node.Addr)
	}
	place := 0
	inlinetest.RunBackend(t, func(*testing.T) *inlinetest.BackendPlace {
		place++
		o := Options{URL: "redis://" + strings.Join(addresses, ","), Prefix: strings.Repeat("x", place)}
		return &inlinetest.BackendPlace{Open: func(t testing.TB) stored.Backend { return open(t, o) }, Brief: true}
	})
}

func TestWatchedBySentinels(t *testing.T) {
	master := redistest.Start(t)
	sentinel := redistest.Sentinel(t, "weir-master", master)
	place := 0
	inlinetest.RunBackend(t, func(*testing.T) *inlinetest.BackendPlace {
		place++
		o := Options{URL: "redis://" + sentinel.Addr + "?master=weir-master", Prefix: strings.Repeat("x", place)}
		return &inlinetest.BackendPlace{Open: func(t testing.TB) stored.Backend { return open(t, o) }, Brief: true}
	})
}
