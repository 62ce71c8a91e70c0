package enforcer

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/blocklist/follow"
	"weir/test/wait"
)

// An enforcer whose machine was set back has lost records that its followers have, and gives others in their place. A
// follower that asks when the list has grown beyond its own gets all of it, whether it ran meanwhile or starts again.
func TestFollowersOfAListThatWasSetBack(t *testing.T) {
	now := time.Now().UnixMilli()
	apply := func(set *blocklist.Set, keys ...string) {
		for i, key := range keys {
			if err := set.Apply(now, changeOf(t, int64(10+i), ofIP(key))); err != nil {
				t.Fatal(err)
			}
		}
	}
	before, after := list(t, ofIP("203.0.113.1")), list(t, ofIP("203.0.113.1"))
	apply(before, "198.51.100.1", "198.51.100.2")
	apply(after, "192.0.2.1", "192.0.2.2", "192.0.2.3")

	var complete bytes.Buffer
	if err := before.WriteAfter(&complete, blocklist.Version{}, now); err != nil {
		t.Fatal(err)
	}
	for name, begin := range map[string]func(set *blocklist.Set, file string){
		"runs": func(set *blocklist.Set, _ string) {
			if _, err := set.Read(bytes.NewReader(complete.Bytes()), now); err != nil {
				t.Fatal(err)
			}
		},
		"starts again": func(_ *blocklist.Set, file string) {
			if _, err := follow.Save(file, before, now); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			set, file := blocklist.NewSet(blocklist.Limits{}), filepath.Join(t.TempDir(), "list")
			begin(set, file)
			f, err := follow.NewFromUpstream(follow.Config{Set: set, File: file}, follow.Upstream{URL: "http://" + start(t, after, nil).Address()})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var group sync.WaitGroup
			group.Go(func() { f.Run(ctx) })
			defer group.Wait()
			defer cancel()
			keys := func() (all []string) {
				for e := range set.All(now) {
					all = append(all, e.Key)
				}
				slices.Sort(all)
				return all
			}
			wait.Until(t, "the list", func() bool {
				return slices.Equal(keys(), []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "203.0.113.1"})
			})
		})
	}
}
