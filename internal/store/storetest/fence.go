package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"weir/internal/store"
)

func refused(t *testing.T, s store.Store, partition int, named, found store.Fence) {
	t.Helper()
	now, err := s.Write(ctx, partition, named, []store.Change{set("refused", "x"), remove("kept")})
	if !errors.Is(err, store.ErrFenced) || now != found {
		t.Errorf("written as %v: found %v and %v, want %v", named, now, err, found)
	}
}

func untaken(t *testing.T, s store.Store) {
	values, fence := read(t, s, 7, store.Windows, "a", "b")
	if fence != (store.Fence{}) || values[0] != nil || values[1] != nil {
		t.Errorf("fence %v, values %q", fence, values)
	}

	// Also the zero fence, which equals that of a partition without an owner, must not be able to write.
	refused(t, s, 7, store.Fence{}, store.Fence{})
	refused(t, s, 7, store.Fence{Epoch: 1, Owner: 2, N: 3}, store.Fence{})
	expect(t, s, 7, store.Windows, "refused", nil)
	first := take(t, s, 7)
	if first.Epoch != 1 || first.Owner == 0 || first.N != 0 {
		t.Errorf("the first fence is %v", first)
	}

	second := take(t, s, 7)
	if second.Epoch != 2 || second.Owner == first.Owner || second.N != 0 {
		t.Errorf("after %v the fence is %v", first, second)
	}
	if _, found := read(t, s, 7, store.Notes); found != second {
		t.Errorf("reading no key tells %v, want %v", found, second)
	}
}

func countsUp(t *testing.T, s store.Store) {
	taken := take(t, s, 0)
	fence := taken
	for n := range uint64(5) {
		next := write(t, s, 0, fence, make([]store.Change, 0)...)
		if want := (store.Fence{Epoch: taken.Epoch, Owner: taken.Owner, N: n + 1}); next != want {
			t.Errorf("after %v comes %v, want %v", fence, next, want)
		}
		if _, found := read(t, s, 0, store.Windows, "x"); found != next {
			t.Errorf("a read tells %v, want %v", found, next)
		}
		fence = next
	}

	page, err := s.Scan(ctx, 0, store.Windows, "", 10)
	if err != nil || page.Fence != fence {
		t.Errorf("a scan tells %v, %v, want %v", page.Fence, err, fence)
	}
}

func onlyTheLastFence(t *testing.T, s store.Store) {
	first := take(t, s, 0)
	second := write(t, s, 0, first, set("kept", "x"))
	other := second
	other.Owner++
	later := second.Next()
	epoch := second
	epoch.Epoch++

	// One of each kind: none, the one before, another owner's, a later one, and another epoch's.
	for _, named := range []store.Fence{{}, first, other, later, epoch} {
		refused(t, s, 0, named, second)
	}

	expect(t, s, 0, store.Windows, "kept", []byte("x"))
	expect(t, s, 0, store.Windows, "refused", nil)
	write(t, s, 0, second, set("kept", "y"))
	expect(t, s, 0, store.Windows, "kept", []byte("y"))
}

func formerOwner(t *testing.T, s store.Store) {
	former := take(t, s, 3)
	former = write(t, s, 3, former, set("kept", "x"))
	owner := take(t, s, 3)
	refused(t, s, 3, former, owner)
	if _, found := read(t, s, 3, store.Windows, "kept"); found != owner || found == former {
		t.Errorf("the former owner reads the fence %v, want %v", found, owner)
	}
	owner = write(t, s, 3, owner, set("new", "x"))
	refused(t, s, 3, former, owner)
	expect(t, s, 3, store.Windows, "kept", []byte("x"))
	expect(t, s, 3, store.Windows, "refused", nil)
}

// Each owner reads a number, counts it up and writes it as long as it can. No count is lost or doubled.
func manyOwners(t *testing.T, s store.Store) {
	const owners, each = 4, 25
	var owner sync.WaitGroup
	for range owners {
		owner.Go(func() {
			for done := 0; done < each; {
				done += countAsOwner(t, s, each-done)
			}
		})
	}
	owner.Wait()
	expect(t, s, 0, store.Windows, "count", fmt.Append(nil, owners*each))
}

// countAsOwner takes the partition and counts until another has taken it.
func countAsOwner(t *testing.T, s store.Store, most int) (done int) {
	fence, err := s.Take(ctx, 0)
	for ; err == nil && done < most; done++ {
		var values [][]byte
		var found store.Fence
		values, found, err = s.Read(ctx, 0, store.Windows, [][]byte{[]byte("count")})
		// A fence that has changed shows that another owner has taken it; the value may be that owner's.
		if err != nil || found != fence {
			break
		}

		count := 0
		fmt.Sscan(string(values[0]), &count)
		fence, err = s.Write(ctx, 0, fence, []store.Change{set("count", fmt.Sprint(count+1))})
		if err != nil {
			break
		}
	}

	if err != nil && !errors.Is(err, store.ErrFenced) {
		t.Error(err)
		return most
	}
	return done
}

// Every reader sees the values of one write, and the fence that it left.
func whollyOrNot(t *testing.T, s store.Store) {
	const writes = 60
	fence := take(t, s, 0)
	var keys [][]byte
	for n := range 50 {
		keys = append(keys, fmt.Appendf(nil, "key%d", n))
	}

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := range writes {
			var changes []store.Change
			for _, key := range keys {
				// The number of a write is in each value twice, as its byte and in its length, so a mixture shows.
				changes = append(changes, store.Change{Space: store.Windows, Key: key, Value: bytes.Repeat([]byte{byte(n + 1)}, 1+n*3)})
			}
			var err error
			if fence, err = s.Write(ctx, 0, fence, changes); err != nil {
				t.Error(err)
				return
			}
		}
	}()

	for {
		values, found, err := s.Read(ctx, 0, store.Windows, keys)
		if err != nil {
			t.Fatal(err)
		}

		for _, value := range values {
			// Before the first write.
			if found.N == 0 && value == nil {
				continue
			}
			if len(value) != 1+3*int(found.N-1) || value[0] != byte(found.N) {
				t.Fatalf("at %v a value has %d bytes", found, len(value))
			}
		}

		select {
		case <-ended:
			return
		default:
		}
	}
}

func agree(t *testing.T, s store.Store) {
	for _, c := range []struct{ name, value, want string }{
		{"partitions", "16", "16"}, {"partitions", "32", "16"}, {"list", "abc", "abc"}, {"partitions", "", "16"}, {"empty", "", ""}, {"empty", "x", ""},
	} {
		found, err := s.Agree(ctx, c.name, []byte(c.value))
		if err != nil || string(found) != c.want {
			t.Errorf("%s is %q, %v, want %q", c.name, found, err, c.want)
		}
	}
}

func agreeAtOnce(t *testing.T, s store.Store) {
	found := make([]string, 8)
	var all sync.WaitGroup
	for n := range found {
		all.Go(func() {
			value, err := s.Agree(ctx, "list", fmt.Append(nil, n))
			if err != nil {
				t.Error(err)
			}
			found[n] = string(value)
		})
	}

	all.Wait()
	for _, value := range found {
		if value != found[0] || value == "" {
			t.Fatalf("not all agree: %q", found)
		}
	}
}
