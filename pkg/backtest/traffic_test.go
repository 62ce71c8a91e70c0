package backtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A network that grows is judged as an aggregator does: by the mean of the shares that it had when its addresses were blocked,
// and not by its share at the last of these.
func TestAGrowingNetworkIsGuardedByTheMeanOfItsShares(t *testing.T) {
	begin := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
	var all []sprayed
	for second := range 1200 {
		at := begin.Add(time.Duration(second) * time.Second)
		all = append(all, sprayed{at, fmt.Sprintf("198.18.%d.%d", second%100, second%200)}, sprayed{at, fmt.Sprintf("198.19.%d.%d", second%100, second%200)})
		if second >= 600 {
			all = append(all, sprayed{at, fmt.Sprintf("203.0.113.%d", 100+second%150)})
		}
		if second%110 == 109 && second > 600 {
			for range 5 {
				all = append(all, sprayed{at, fmt.Sprintf("203.0.113.%d", second/110)})
			}
		}
	}

	// At its five blocks the shares are 4.7, 10.5, 14.4, 17.2 and 19.3 %.
	for most, guarded := range map[string]int64{"13%": 1, "15%": 0} {
		set := parseRules(t, `rules:
  - {name: per-ip, key: ip, limits: [4/10s], block: {for: 10m}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [4/10min], mode: enforce, block: {for: 1h}, guard: {most_share: `+most+`}}`)
		report := runConfig(t, Config{Rules: set, Inputs: []Input{fromText("log", spread(rand.New(rand.NewPCG(1, 1)), all, 0))}})
		blocked := report.Rules[1].Blocked
		if len(blocked) != 1 || blocked[0].Group.Guarded != guarded || blocked[0].Group.Share != 13.19 {
			t.Errorf("%s: %+v", most, report.Rules[1])
		}
	}
}

// Addresses of a network with a tenth of the requests, and of one with a hundredth, are blocked. The group rule with most_share refuses
// the requests of the small network, and shows the large one.
func TestALargeNetworkIsGuarded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	begin := time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)
	var all []sprayed
	send := func(network string, requests, from, to int) {
		for range requests {
			at := begin.Add(time.Duration(from)*time.Minute + time.Duration(r.IntN((to-from)*60))*time.Second)
			all = append(all, sprayed{at, fmt.Sprint(network, ".", 100+r.IntN(150))})
		}
	}
	for n := range 100 {
		send(fmt.Sprint("198.18.", n), 95, 0, 40)
	}
	for network, requests := range map[string]int{"203.0.113": 500, "192.0.2": 50} {
		send(network, requests, 0, 20)
		send(network, requests, 22, 40)
		for n := range 7 {
			for range 5 {
				all = append(all, sprayed{begin.Add(20*time.Minute + time.Duration(n)*time.Second), fmt.Sprint(network, ".", n)})
			}
		}
	}
	text := spread(r, all, time.Minute)

	const rules = `rules:
  - {name: per-ip, key: ip, limits: [4/10s], block: {for: 10m}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/10min], mode: enforce, block: {for: 1h}%s}`
	for guard, guarded := range map[string]int64{"": 0, ", guard: {most_share: 2%}": 1, ", guard: {most_share: 20%}": 0} {
		set := parseRules(t, fmt.Sprintf(rules, guard))
		report := runConfig(t, Config{Rules: set, Inputs: []Input{fromText("log", text)}})
		got := map[string]Blocked{}
		for _, b := range report.Rules[1].Blocked {
			got[b.Key] = b
		}
		small, large := got["192.0.2.0/24"], got["203.0.113.0/24"]
		if small.Group == nil || small.Group.Guarded != 0 || small.Refused < 50 || large.Group == nil || large.Group.Guarded != guarded || (large.Refused == 0) != (guarded > 0) {
			t.Errorf("%s: %+v %+v, %+v %+v", guard, small, small.Group, large, large.Group)
		}
		var out bytes.Buffer
		if err := report.WriteText(&out, TextOptions{}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "; the network sent 9.7% of an hour's requests, more than most_share: 1 block guarded") != (guarded > 0) {
			t.Errorf("%s: %s", guard, out.String())
		}
	}
}
