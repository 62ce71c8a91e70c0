package crash

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"weir/internal/store"
	"weir/internal/store/disk"
	"weir/internal/store/redis"
	stored "weir/pkg/aggregator/windows"
	"weir/pkg/window"
)

// cold opens the store at the same time as the aggregators, or, if it is on disk, after its aggregator has ended.
func (r *river) cold() store.Store {
	r.t.Helper()
	var s store.Store
	var err error
	if r.place == "" {
		s, err = disk.Open(r.t.Context(), disk.Options{Folder: filepath.Join(r.members[0].folder, "data", "store")})
	} else {
		s, err = redis.Open(r.t.Context(), redis.Options{URL: r.place, Prefix: r.prefix})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// compareWindows compares the store's state of every key with the truth. State without effect may be gone.
func (r *river) compareWindows(w *truth) {
	r.t.Helper()
	s := r.cold()
	defer s.Close()
	policies := newWindows(r.t, mustParse(r.t, r.rules), r.partitions).policies
	found, wrong := map[pair]bool{}, 0
	say := func(of pair, err error) {
		if wrong++; wrong <= 20 {
			r.t.Errorf("the window of %v: %v", of, err)
		}
	}
	r.windows(s, func(of pair, value []byte) {
		state, err := stateIn(value, policies[of.rule])
		if err == nil && state.Newest() == 0 {
			return // swept away, and then unblocked
		}
		found[of] = true
		if err == nil {
			err = w.differs(of, state, policies[of.rule])
		}
		if err != nil {
			say(of, err)
		}
	})
	for of, h := range w.keys {
		if !found[of] && h.clear(w.rules[of.rule]) > w.reached[h.partition]-w.late {
			say(of, fmt.Errorf("the store has nothing of it, want %+v", *h))
		}
	}
	if wrong > 0 {
		r.t.Errorf("%d of %d windows are not the truth", wrong, len(w.keys))
	}
	r.t.Logf("the store has windows of %d keys of %d", len(found), len(w.keys))
}

// windows goes through all windows in the store.
func (r *river) windows(s store.Store, each func(of pair, value []byte)) {
	r.t.Helper()
	for p := range r.partitions {
		for from := store.Cursor(""); ; {
			page, err := s.Scan(r.t.Context(), p, store.Windows, from, 1000)
			if err != nil {
				r.t.Fatal(err)
			}
			for _, item := range page.Pairs {
				rule, key, _ := strings.Cut(string(item.Key), "/")
				each(pair{rule, key}, item.Value)
			}
			if from = page.Next; from == "" {
				break
			}
		}
	}
}

func stateIn(value []byte, policy *window.Policy) (*window.State, error) {
	if policy == nil {
		return nil, errors.New("there is no such rule")
	}
	record, err := stored.ReadRecord(value)
	if err != nil {
		return nil, err
	}
	state := &window.State{}
	return state, policy.Read(record.State, state)
}
