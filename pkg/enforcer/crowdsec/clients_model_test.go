package crowdsec

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir/internal/address"
	"weir/pkg/blocklist"
	"weir/pkg/enforcer/outright"
)

// A holder is a client's memory: values, and until when.
type holder struct {
	name  string
	holds map[string]time.Time
	take  func(h *holder, now time.Time, got streamed)
}

func (h *holder) expire(now time.Time) {
	maps.DeleteFunc(h.holds, func(_ string, until time.Time) bool { return !until.After(now) })
}

func (h *holder) forget(got streamed) {
	for _, d := range got.Deleted {
		delete(h.holds, *d.Value)
	}
}

func until(d *decision, now time.Time) time.Time {
	duration, _ := time.ParseDuration(*d.Duration)
	return now.Add(duration)
}

// The three ways in which bouncers apply an answer.
func holders() []*holder {
	return []*holder{
		{name: "nftables", holds: map[string]time.Time{}, take: func(h *holder, now time.Time, got streamed) { // skips known values
			h.forget(got)
			for _, d := range got.New {
				if _, has := h.holds[*d.Value]; !has {
					h.holds[*d.Value] = until(&d, now)
				}
			}
		}},
		{name: "lua", holds: map[string]time.Time{}, take: func(h *holder, now time.Time, got streamed) { // the last value counts
			h.forget(got)
			for _, d := range got.New {
				h.holds[*d.Value] = until(&d, now)
			}
		}},
		{name: "traefik", holds: map[string]time.Time{}, take: func(h *holder, now time.Time, got streamed) { // new before deleted
			for _, d := range got.New {
				h.holds[*d.Value] = until(&d, now)
			}
			h.forget(got)
		}},
	}
}

// The list may change in any way, with restarts, kills and failed polls. When it has been quiet for as long as bouncers keep
// their first end of a value, every bouncer has all addresses of the list; and after a poll none has an address that is
// not on it.
func TestBouncersHaveTheList(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 7))
		s := newSite(t)
		clients := holders()
		for step := range 150 {
			quiet := step >= 100
			if !quiet {
				s.change(random)
			}
			switch random.IntN(50) {
			case 0, 1:
				if err := s.Save(); err != nil {
					t.Fatal(err)
				}
				s.open()
			case 2: // killed
				s.open()
			}
			s.now = s.now.Add(time.Duration(1+random.IntN(9000)) * time.Millisecond)
			want := s.outright()
			for i, client := range clients {
				w := s.askAs("edge", fmt.Sprintf("192.0.2.%d:1", i), "GET", "/v1/decisions/stream", "")
				client.expire(s.now)
				client.take(client, s.now, read(t, w))
			}
			compare(t, seed, clients, want, quiet && step > 140)
		}
	}
}

// compare compares the clients' values with the wanted ones.
func compare(t *testing.T, seed uint64, clients []*holder, want map[string]bool, quiet bool) {
	t.Helper()
	for _, client := range clients {
		for value := range client.holds {
			if !want[value] {
				t.Fatalf("seed %d: %s holds %s, which is not on the list", seed, client.name, value)
			}
		}
		if quiet {
			if held := slices.Sorted(maps.Keys(client.holds)); !slices.Equal(held, slices.Sorted(maps.Keys(want))) {
				t.Fatalf("seed %d: %s holds %s, on the list are %v", seed, client.name, held, slices.Sorted(maps.Keys(want)))
			}
		}
	}
}

// change makes one change to the list.
func (s *site) change(random *rand.Rand) {
	name := []string{"per-ip", "scans", "per-net"}[random.IntN(3)]
	value := fmt.Sprintf("203.0.113.%d", random.IntN(4))
	if name == "per-net" {
		value = netip.PrefixFrom(mustAddr("203.0.113.0"), 30+random.IntN(2)).String()
	}
	switch random.IntN(8) {
	case 0, 1:
		s.list.lift(name, value)
	case 2:
		s.list.order(blocklist.OrderAllow, "ip", value, s.after(time.Duration(random.IntN(60))*time.Second))
	case 3:
		s.list.order(blocklist.OrderPause, "", name, s.after(time.Duration(random.IntN(20))*time.Second))
	case 4:
		s.list.block(name, "ip", value, s.after(24*time.Hour))
	default:
		s.list.block(name, "ip", value, s.after(time.Duration(1+random.IntN(60))*time.Second))
	}
}

// outright returns the values on the list.
func (s *site) outright() map[string]bool {
	values := map[string]bool{}
	for someone := range outright.All(s.list, testRules, s.now.UnixMilli()) {
		values[address.Text(someone.Prefix)] = true
	}
	return values
}
