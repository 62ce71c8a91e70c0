package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/store"
)

func scan(t *testing.T, s store.Store, partition int, space store.Space, most int) map[string]string {
	t.Helper()
	all := map[string]string{}
	from := store.Cursor("")
	for {
		page, err := s.Scan(ctx, partition, space, from, most)
		if err != nil {
			t.Fatal(err)
		}

		for _, pair := range page.Pairs {
			if _, twice := all[string(pair.Key)]; twice {
				t.Errorf("%q comes twice", pair.Key)
			}
			all[string(pair.Key)] = string(pair.Value)
		}

		if page.Next == "" {
			return all
		}
		from = page.Next
	}
}

func fill(t *testing.T, s store.Store, space store.Space, keys int) (want map[string]string, fence store.Fence) {
	t.Helper()
	fence = take(t, s, 0)
	want = map[string]string{}
	var changes []store.Change
	for n := range keys {
		key, value := fmt.Sprintf("key%d", n), strings.Repeat("v", n%150)
		want[key] = value
		changes = append(changes, store.Change{Space: space, Key: []byte(key), Value: []byte(value)})
	}
	return want, write(t, s, 0, fence, changes...)
}

func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d keys, want %d", len(got), len(want))
	}
	for key, value := range want {
		if found, ok := got[key]; !ok || found != value {
			t.Fatalf("%q is %.40q (%v), want %.40q", key, found, ok, value)
		}
	}
}

func scanAll(t *testing.T, s store.Store) {
	for _, space := range store.Spaces {
		want, _ := fill(t, s, space, 1500)
		for _, most := range []int{1, 100, 100_000} {
			same(t, scan(t, s, 0, space, most), want)
		}
	}
}

// Keys that are there from beginning to end come once, whatever other keys come and go.
func scanWhileChanging(t *testing.T, s store.Store) {
	want, fence := fill(t, s, store.Windows, 1000)
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	from, gone := store.Cursor(""), map[string]bool{}
	for {
		page, err := s.Scan(ctx, 0, store.Windows, from, 50)
		if err != nil {
			t.Fatal(err)
		}

		for _, pair := range page.Pairs {
			if seen[string(pair.Key)] {
				t.Errorf("%q comes twice", pair.Key)
			}
			seen[string(pair.Key)] = true
		}

		if from = page.Next; from == "" {
			break
		}
		var changes []store.Change
		for range 20 {
			key := fmt.Sprintf("key%d", r.IntN(1500))
			// A key that was gone at any time may come or not; all others have to come.
			if r.IntN(2) == 0 {
				gone[key] = true
				changes = append(changes, remove(key))
			} else if gone[key] || want[key] == "" {
				changes = append(changes, set(key, "new"))
			} else {
				changes = append(changes, set(key, strings.Repeat("w", r.IntN(150))))
			}
		}

		fence = write(t, s, 0, fence, changes...)
	}

	for key := range want {
		if !seen[key] && !gone[key] {
			t.Errorf("%q was there all the time and does not come", key)
		}
	}
}

func scanNothing(t *testing.T, s store.Store) {
	for _, space := range store.Spaces {
		if all := scan(t, s, 4, space, 10); len(all) > 0 {
			t.Errorf("%v", all)
		}
	}
}
