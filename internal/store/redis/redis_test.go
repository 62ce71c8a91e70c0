package redis

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"weir/internal/store"
	"weir/internal/store/redis/redistest"
	"weir/internal/store/storetest"
)

var ctx = context.Background()

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAStoreInRedis(t *testing.T) {
	server := redistest.Start(t)
	places := 0
	storetest.Run(t, func(t *testing.T) func() store.Store {
		places++
		prefix := fmt.Sprint("place", places, ":")
		return func() store.Store { return open(t, Options{URL: "redis://" + server.Addr, Prefix: prefix}) }
	})
}

// Clients choose keys, and can bring very many into one bucket. No call reads all of them, and all come.
func TestALargeBucket(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, Options{URL: "redis://" + server.Addr})
	defer s.Close()
	fence, err := s.Take(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	const keys = 20_000
	for n := 0; n < keys; n += 1000 {
		var changes []store.Change
		for k := n; k < n+1000; k++ {
			changes = append(changes, store.Change{Space: store.Notes, Key: fmt.Appendf(nil, "key%d", k), Value: bytes.Repeat([]byte("v"), 40+k%2*40)})
		}
		if fence, err = s.Write(ctx, 0, fence, changes); err != nil {
			t.Fatal(err)
		}
	}

	seen := map[string]int{}
	for from, last := store.Cursor(""), false; !last; {
		page, err := s.Scan(ctx, 0, store.Notes, from, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Pairs) > 1000 {
			t.Fatalf("a page of %d", len(page.Pairs))
		}
		for _, pair := range page.Pairs {
			seen[string(pair.Key)] = len(pair.Value)
		}
		from, last = page.Next, page.Next == ""
	}
	for k := range keys {
		if got, want := seen[fmt.Sprint("key", k)], 40+k%2*40; got != want {
			t.Fatalf("key%d has %d bytes, expected %d", k, got, want)
		}
	}
	for _, wrong := range []store.Cursor{"1", "x", "0.", "0.2.17", "0.1.x", "0.1"} {
		if _, err := s.Scan(ctx, 0, store.Notes, wrong, 100); err == nil {
			t.Errorf("%q is a cursor", wrong)
		}
	}
}
