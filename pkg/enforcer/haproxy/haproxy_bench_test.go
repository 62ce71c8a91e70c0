package haproxy

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"weir/pkg/blocklist"
	"weir/pkg/enforcer/cidr"
)

// kept returns an Agent of a running HAProxy that the benchmark drives itself.
func kept(b *testing.B) *Agent {
	b.Helper()
	e := newEdge(b)
	if err := os.WriteFile(e.mapFile, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	e.run()
	return New(Config{Socket: e.socket, Map: e.mapFile, Logger: slog.New(slog.DiscardHandler)})
}

func BenchmarkSwappingIn100000(b *testing.B) {
	a, want := kept(b), addresses(100_000)
	for b.Loop() {
		if err := a.replace(context.Background(), want); err != nil {
			b.Fatal(err)
		}
	}
}

// The end of one block among 100,000.
func BenchmarkAChangeAmong100000(b *testing.B) {
	a, before := kept(b), addresses(100_000)
	after := append([]cidr.Block{}, before...)
	after[50_000].Until = blocklist.Never
	if err := a.replace(context.Background(), before); err != nil {
		b.Fatal(err)
	}
	a.have = before
	for i := 0; b.Loop(); i++ {
		want := after
		if i%2 == 1 {
			want = before
		}
		if err := a.change(context.Background(), want); err != nil {
			b.Fatal(err)
		}
		a.have = want
	}
}

func BenchmarkWritingTheFileOf100000(b *testing.B) {
	f, want := file{path: b.TempDir() + "/weir.map"}, addresses(100_000)
	for b.Loop() {
		if err := f.replace(want, Until); err != nil {
			b.Fatal(err)
		}
	}
}
