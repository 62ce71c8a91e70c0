package redis

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/store"
	"weir/internal/store/redis/redistest"
	"weir/internal/store/storetest"
)

func TestAStoreInACluster(t *testing.T) {
	var addresses []string
	for _, node := range redistest.Cluster(t, 3) {
		addresses = append(addresses, node.Addr)
	}
	places := 0
	storetest.Run(t, func(t *testing.T) func() store.Store {
		places++
		o := Options{URL: "redis://" + strings.Join(addresses, ","), Prefix: fmt.Sprint("place", places, ":")}
		return func() store.Store { return open(t, o) }
	})
}

func TestAStoreThatSentinelsWatch(t *testing.T) {
	master := redistest.Start(t)
	sentinel := redistest.Sentinel(t, "weir-master", master)
	places := 0
	storetest.Run(t, func(t *testing.T) func() store.Store {
		places++
		o := Options{URL: "redis://" + sentinel.Addr + "?master=weir-master", Prefix: fmt.Sprint("place", places, ":")}
		return func() store.Store { return open(t, o) }
	})
}
