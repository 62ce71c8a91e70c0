package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/internal/store"
)

// Random writes by owners that come and go.
func model(t *testing.T, s store.Store) {
	r := rand.New(rand.NewPCG(3, 4))
	want := map[store.Space]map[string]string{}
	for _, space := range store.Spaces {
		want[space] = map[string]string{}
	}

	fence := take(t, s, 5)
	for range 300 {
		if r.IntN(20) == 0 {
			former := fence
			fence = take(t, s, 5)
			refused(t, s, 5, former, fence)
		}

		var changes []store.Change
		for range r.IntN(30) {
			// Few keys, so that most changes are of known ones, and some keys and values longer than 64 bytes, which
			// Redis stores elsewhere.
			c := store.Change{Space: store.Spaces[r.IntN(3)], Key: fmt.Appendf(nil, "%0*d", 1+60*r.IntN(2)*r.IntN(2), r.IntN(40))}
			if r.IntN(3) > 0 {
				c.Value = bytes.Repeat([]byte("v"), r.IntN(130))
				want[c.Space][string(c.Key)] = string(c.Value)
			} else {
				delete(want[c.Space], string(c.Key))
			}
			changes = append(changes, c)
		}

		fence = write(t, s, 5, fence, changes...)
	}

	for _, space := range store.Spaces {
		same(t, scan(t, s, 5, space, 7), want[space])
		for key, value := range want[space] {
			expect(t, s, 5, space, key, []byte(value))
		}
	}
}

func reopen(t *testing.T, open func() store.Store) {
	s := open()
	want, fence := fill(t, s, store.Windows, 500)
	if _, err := s.Agree(ctx, "partitions", []byte("16")); err != nil {
		t.Fatal(err)
	}

	// Twice: a write after the first opening must be there at the second.
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open()
		same(t, scan(t, s, 0, store.Windows, 100), want)
		want["again"] = "x"
		fence = write(t, s, 0, fence, set("again", "x"))
		if found, err := s.Agree(ctx, "partitions", []byte("32")); err != nil || string(found) != "16" {
			t.Errorf("%q, %v", found, err)
		}
	}

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
