package redis

import (
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
