package redis

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/store/redis/redistest"
	"weir/pkg/inline"
	"weir/pkg/inline/inlinetest"
	"weir/pkg/inline/stored"
	"weir/pkg/window"
	"weir/test/wait"
)

// A failover to a replica that lacks the last writes admits once more what was in them, and no more.
func TestAFailoverThatLosesItsLastWrites(t *testing.T) {
	const limit, before, lost = 30, 10, 5
	master := redistest.Start(t)
	_, port, _ := net.SplitHostPort(master.Addr)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 "+port)
	wait.Until(t, "the replica follows", func() bool {
		info, err := replica.Client.Info(ctx, "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	sentinel := redistest.Sentinel(t, "weir-master", master)
	wait.Until(t, "the Sentinel knows the replica", func() bool {
		all, err := sentinel.Client.Do(ctx, "SENTINEL", "REPLICAS", "weir-master").Slice()
		return err == nil && len(all) == 1
	})

	rule := inlinetest.NewRule(t, "quota", window.Sliding, window.Limit{Hits: limit, Per: time.Hour})
	s := stored.New(stored.Config{Backend: open(t, Options{URL: "redis://" + sentinel.Addr + "?master=weir-master"})})
	defer s.Close()
	take := func() (admitted, answered bool) {
		within, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		var v inline.Verdict
		err := s.Take(within, &v, []inline.Want{{Rule: rule, Key: []byte("a"), Cost: 1}})
		return v.Admitted && err == nil, err == nil
	}
	count := func(n int) (admitted int) {
		for range n {
			if ok, _ := take(); ok {
				admitted++
			}
		}
		return admitted
	}

	if n := count(before); n != before {
		t.Fatalf("%d of %d are admitted", n, before)
	}
	// WAIT waits for what its own connection has written, and all that came before it.
	conn := master.Client.Conn()
	defer conn.Close()
	conn.Set(ctx, "mark", "1", 0)
	if n, err := conn.Wait(ctx, 1, 10*time.Second).Result(); n != 1 {
		t.Fatalf("%d replicas have the writes: %v", n, err)
	}
	replica.Client.ReplicaOf(ctx, "127.0.0.1", "1") // it follows no one
	if n := count(lost); n != lost {
		t.Fatalf("%d of %d are admitted", n, lost)
	}
	master.Kill()

	first := 0
	wait.Until(t, "the replica is the master", func() bool {
		admitted, answered := take()
		if admitted {
			first++
		}
		return answered
	})
	if n := first + count(2*limit); n != limit-before {
		t.Errorf("%d are admitted; %d were there, of %d", n, before, limit)
	}
}
