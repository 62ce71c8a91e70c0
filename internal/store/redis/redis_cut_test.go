package redis_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/store"
	"weir/internal/store/redis"
	"weir/internal/store/redis/redistest"
)

// A Redis dies and loses the end of its append-only file, again and again. It then has an earlier fence, and every key
// has the value of that fence, or a later one that was written after it and lost: never an earlier one, and no key is
// gone.
func TestACutLogTakesNoKeyBack(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
	s, err := redis.Open(t.Context(), redis.Options{URL: "redis://" + server.Addr, Expire: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	const keys, rounds, writes, changed = 2000, 10, 40, 300
	random := rand.New(rand.NewPCG(1, 2))
	var names [][]byte
	for n := range keys {
		names = append(names, fmt.Appendf(nil, "stubborn/10.0.0.%d", n))
	}
	latest, sequence := make([]uint64, keys), uint64(0)
	for round := range rounds {
		fence := takeAgain(t, s)
		was := map[string][]uint64{fence.String(): append([]uint64(nil), latest...)}
		file := appendFile(t, server)
		var safe int64
		for n := range writes {
			if n == writes/2 {
				safe = size(t, file)
			}
			var changes []store.Change
			for range changed {
				sequence++
				key := random.IntN(keys)
				value := binary.BigEndian.AppendUint64(nil, sequence)
				value = append(value, bytes.Repeat([]byte{'x'}, 40+random.IntN(40))...) // short or long
				changes = append(changes, store.Change{Space: store.Windows, Key: names[key], Value: value})
				latest[key] = sequence
			}
			if fence, err = s.Write(t.Context(), 1, fence, changes); err != nil {
				t.Fatal(err)
			}
			was[fence.String()] = append([]uint64(nil), latest...)
		}
		server.Kill()
		if err := os.Truncate(file, safe+random.Int64N(size(t, file)-safe+1)); err != nil {
			t.Fatal(err)
		}
		server.Restart()
		latest = compareCut(t, s, names, was, round)
	}
}

// compareCut returns the present values of the keys.
func compareCut(t *testing.T, s *redis.Store, names [][]byte, was map[string][]uint64, round int) []uint64 {
	t.Helper()
	var values [][]byte
	var found store.Fence
	again(t, func(ctx context.Context) (err error) {
		values, found, err = s.Read(ctx, 1, store.Windows, names)
		return err
	})
	want, ok := was[found.String()]
	if !ok {
		t.Fatalf("round %d: the fence %v never was", round, found)
	}
	now := make([]uint64, len(names))
	for i, value := range values {
		if value != nil {
			now[i] = binary.BigEndian.Uint64(value)
		}
		if now[i] < want[i] {
			t.Fatalf("round %d: %s is back at %d, at %v it was %d", round, names[i], now[i], found, want[i])
		}
	}
	return now
}

func takeAgain(t *testing.T, s *redis.Store) (fence store.Fence) {
	t.Helper()
	again(t, func(ctx context.Context) (err error) {
		fence, err = s.Take(ctx, 1)
		return err
	})
	return fence
}

// again repeats a call until it succeeds: a server that has just started is still loading.
func again(t *testing.T, call func(context.Context) error) {
	t.Helper()
	err := call(t.Context())
	for deadline := time.Now().Add(time.Minute); err != nil; err = call(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func appendFile(t *testing.T, server *redistest.Server) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(server.Folder, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
