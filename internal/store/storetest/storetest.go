// Package storetest contains the tests that each implementation of store runs.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/internal/store"
)

// Run runs all tests. Each asks for an empty place and opens it, sometimes again after it was closed.
func Run(t *testing.T, place func(t *testing.T) (open func() store.Store)) {
	for name, test := range map[string]func(t *testing.T, s store.Store){
		"a partition nobody has taken":             untaken,
		"values come back":                         valuesComeBack,
		"sizes":                                    sizes,
		"a value grows and shrinks":                growAndShrink,
		"spaces and partitions are apart":          apart,
		"the last change of a key counts":          lastChange,
		"a write counts the fence up":              countsUp,
		"only the fence last told can write":       onlyTheLastFence,
		"a former owner writes nothing":            formerOwner,
		"many owners, one at a time":               manyOwners,
		"a write is seen wholly or not at all":     whollyOrNot,
		"a scan sees everything once":              scanAll,
		"a scan while keys go and come":            scanWhileChanging,
		"a scan of nothing":                        scanNothing,
		"agreeing":                                 agree,
		"agreeing at once":                         agreeAtOnce,
		"bytes are the caller's":                   bytesAreTheCallers,
		"a context that has ended":                 endedContext,
		"a full call":                              fullCall,
		"any changes, against a map of the values": model,
	} {
		t.Run(name, func(t *testing.T) {
			s := place(t)()
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			test(t, s)
		})
	}

	t.Run("what was written is there when it is opened again", func(t *testing.T) { reopen(t, place(t)) })
}

var ctx = context.Background()

func take(t *testing.T, s store.Store, partition int) store.Fence {
	t.Helper()
	fence, err := s.Take(ctx, partition)
	if err != nil {
		t.Fatal(err)
	}
	return fence
}

func write(t *testing.T, s store.Store, partition int, fence store.Fence, changes ...store.Change) store.Fence {
	t.Helper()
	next, err := s.Write(ctx, partition, fence, changes)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func read(t *testing.T, s store.Store, partition int, space store.Space, keys ...string) ([][]byte, store.Fence) {
	t.Helper()
	var all [][]byte
	for _, key := range keys {
		all = append(all, []byte(key))
	}

	values, fence, err := s.Read(ctx, partition, space, all)
	if err != nil {
		t.Fatal(err)
	}
	if len(values) != len(keys) {
		t.Fatalf("%d values of %d keys", len(values), len(keys))
	}

	return values, fence
}

// expect compares one value; an empty text is an empty value, and nil none.
func expect(t *testing.T, s store.Store, partition int, space store.Space, key string, want []byte) {
	t.Helper()
	values, _ := read(t, s, partition, space, key)
	if !bytes.Equal(values[0], want) || (values[0] == nil) != (want == nil) {
		t.Errorf("%.40q is %.40q (nil: %v), want %.40q", key, values[0], values[0] == nil, want)
	}
}

func set(key, value string) store.Change {
	return store.Change{Space: store.Windows, Key: []byte(key), Value: []byte(value)}
}

func remove(key string) store.Change { return store.Change{Space: store.Windows, Key: []byte(key)} }

func valuesComeBack(t *testing.T, s store.Store) {
	fence := take(t, s, 0)
	write(t, s, 0, fence, set("a", "1"), set("b", ""), set("\x00\xff\r\n", "\x00\xff\r\n"), set("c", "3"))
	values, _ := read(t, s, 0, store.Windows, "c", "none", "a", "c", "b", "\x00\xff\r\n")
	want := [][]byte{[]byte("3"), nil, []byte("1"), []byte("3"), {}, []byte("\x00\xff\r\n")}
	for n := range want {
		if !bytes.Equal(values[n], want[n]) || (values[n] == nil) != (want[n] == nil) {
			t.Errorf("value %d is %q (nil: %v), want %q", n, values[n], values[n] == nil, want[n])
		}
	}
}

func sizes(t *testing.T, s store.Store) {
	fence := take(t, s, 0)

	// Around 64 bytes, where Redis changes how it stores a value.
	for _, n := range []int{1, 12, 63, 64, 65, 127, 128, 300, 4096, store.MaxKey} {
		fence = write(t, s, 0, fence, set(strings.Repeat("k", n), fmt.Sprint(n)))
		expect(t, s, 0, store.Windows, strings.Repeat("k", n), []byte(fmt.Sprint(n)))
	}
	for _, n := range []int{0, 1, 63, 64, 65, 127, 128, 300, 4096, 100_000, store.MaxValue} {
		value := bytes.Repeat([]byte("v"), n)
		fence = write(t, s, 0, fence, set("key", string(value)))
		expect(t, s, 0, store.Windows, "key", value)
	}
}

func growAndShrink(t *testing.T, s store.Store) {
	fence := take(t, s, 0)
	for _, n := range []int{10, 1000, 10, 64, 65, 64, -1, 65, -1, 10, -1, -1} {
		change, want := remove("key"), []byte(nil)
		if n >= 0 {
			want = bytes.Repeat([]byte("v"), n)
			change = set("key", string(want))
		}
		fence = write(t, s, 0, fence, change)
		expect(t, s, 0, store.Windows, "key", want)
		if pairs := scan(t, s, 0, store.Windows, 10); len(pairs) > 1 || len(pairs) == 1 != (want != nil) {
			t.Errorf("after a value of %d bytes the scan has %d pairs", n, len(pairs))
		}
	}
}

func apart(t *testing.T, s store.Store) {
	fences := map[int]store.Fence{}

	// Numbers that begin alike, for stores that put them into names.
	for _, partition := range []int{0, 1, 10, 100} {
		fences[partition] = take(t, s, partition)
		for _, space := range store.Spaces {
			value := fmt.Sprint(partition, space)
			fences[partition] = write(t, s, partition, fences[partition], store.Change{Space: space, Key: []byte("key"), Value: []byte(value)})
		}
	}

	for partition, fence := range fences {
		for _, space := range store.Spaces {
			expect(t, s, partition, space, "key", fmt.Append(nil, fmt.Sprint(partition, space)))
			if pairs := scan(t, s, partition, space, 10); len(pairs) != 1 {
				t.Errorf("%d keys in space %d of partition %d", len(pairs), space, partition)
			}
		}
		if _, found := read(t, s, partition, store.Windows); found != fence {
			t.Errorf("the fence of partition %d is %v, want %v", partition, found, fence)
		}
	}
}

func lastChange(t *testing.T, s store.Store) {
	fence := take(t, s, 0)
	fence = write(t, s, 0, fence, set("a", "1"), remove("a"), set("a", "3"), set("b", "1"), remove("b"))
	expect(t, s, 0, store.Windows, "a", []byte("3"))
	expect(t, s, 0, store.Windows, "b", nil)
	long := strings.Repeat("v", 500)
	write(t, s, 0, fence, set("a", long), set("a", "5"), set("b", "2"), set("b", long))
	expect(t, s, 0, store.Windows, "a", []byte("5"))
	expect(t, s, 0, store.Windows, "b", []byte(long))
}

func bytesAreTheCallers(t *testing.T, s store.Store) {
	key, value := []byte("key"), []byte("value")
	fence := take(t, s, 0)
	fence = write(t, s, 0, fence, store.Change{Space: store.Windows, Key: key, Value: value})

	// The caller uses its buffers again, also those of a write that is not yet on the disk.
	copy(key, "xxx")
	copy(value, "xxxxx")
	expect(t, s, 0, store.Windows, "key", []byte("value"))
	values, _ := read(t, s, 0, store.Windows, "key")
	write(t, s, 0, fence, set("key", "other"))
	if string(values[0]) != "value" {
		t.Errorf("a value that was read becomes %q", values[0])
	}

	copy(values[0], "xxxxx")
	expect(t, s, 0, store.Windows, "key", []byte("other"))
}

func endedContext(t *testing.T, s store.Store) {
	fence := take(t, s, 0)
	ended, end := context.WithCancel(ctx)
	end()
	_, err := s.Write(ended, 0, fence, []store.Change{set("key", "value")})
	errs := []error{err}
	_, _, err = s.Read(ended, 0, store.Windows, [][]byte{[]byte("key")})
	errs = append(errs, err)
	_, err = s.Scan(ended, 0, store.Windows, "", 1)
	errs = append(errs, err)
	_, err = s.Take(ended, 0)
	errs = append(errs, err)
	_, err = s.Agree(ended, "name", []byte("value"))
	for n, err := range append(errs, err) {
		if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrFenced) {
			t.Errorf("call %d: %v", n, err)
		}
	}

	// Nothing was done, and the fence is still valid.
	expect(t, s, 0, store.Windows, "key", nil)
	write(t, s, 0, fence)
}

func fullCall(t *testing.T, s store.Store) {
	want, _ := fill(t, s, store.Windows, store.MaxKeys)
	keys := make([]string, 0, store.MaxKeys)
	for key := range want {
		keys = append(keys, key)
	}

	values, _ := read(t, s, 0, store.Windows, keys...)
	for n, key := range keys {
		if string(values[n]) != want[key] {
			t.Fatalf("%q is %q", key, values[n])
		}
	}

	if err := s.Sync(ctx); err != nil {
		t.Error(err)
	}
}
