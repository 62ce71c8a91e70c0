package crash

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/test/real"
	"weir/test/wait"
)

const guardedGroupRules = `rules:
  - {name: per-ip, key: ip, limits: [9/5min], block: {for: 2m}}
  - {name: sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [5/20min], mode: enforce, block: {for: 5h}, guard: {most_share: 15%}}
`

// unequalNetworks are lines of twenty networks. The first of them has a third of the visitors, and five have attackers, who
// begin when there were some visitors.
func unequalNetworks(random *rand.Rand, lines int) (text []string) {
	begin := time.Now().Add(-50 * time.Minute)
	for n := range lines {
		network, address := random.IntN(20), 50+random.IntN(200)
		switch {
		case n > lines/10 && random.IntN(5) == 0:
			network, address = random.IntN(5), random.IntN(12)
		case random.IntN(3) == 0:
			network = 0
		}
		at := begin.Add(time.Duration(n) * 45 * time.Minute / time.Duration(lines))
		text = append(text, fmt.Sprintf("198.51.%d.%d - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"a\"\n", network, address, at.UTC().Format("02/Jan/2006:15:04:05 -0700")))
	}
	return text
}

// guardedGroups is what a backtest says of networks: from when each is blocked, and whether it is guarded.
func guardedGroups(t *testing.T, weir, folder string) map[string]string {
	t.Helper()
	out, err := exec.Command(weir, "backtest", "--rules", filepath.Join(folder, "rules.yaml"), "--json", filepath.Join(folder, "all.log")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Rules []struct {
			Blocked []struct {
				Key, First string
				Group      struct{ Guarded int }
			}
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, b := range report.Rules[1].Blocked {
		want[b.Key] = sinceOf(fmt.Sprint(b.First), b.Group.Guarded > 0)
	}
	if len(want) < 5 || want["198.51.0.0/24"] != "guarded" || want["198.51.1.0/24"] == "guarded" {
		t.Fatalf("the backtest says %v", want)
	}
	return want
}

// sinceOf is when a block began. A guarded network that goes on is judged again, and has another time then.
func sinceOf(from string, guarded bool) string {
	if guarded {
		return "guarded"
	}
	return from
}

// listedGuarded says how the list differs from that.
func listedGuarded(weir, folder string, want map[string]string) error {
	out, err := exec.Command(weir, "list", "--config", filepath.Join(folder, "weir.yaml"), "--json").Output()
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var e struct {
			Rule, Key, From string
			Guarded         bool
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return err
		}
		if e.Rule == "sprays" {
			got[e.Key] = sinceOf(e.From, e.Guarded)
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("%v, want %v", got, want)
	}
	return nil
}

// A large network is guarded, and small ones are blocked from the times on that a backtest says, though the process is killed
// again and again.
func TestGuardedGroupsUnderFire(t *testing.T) {
	real.Long(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	i, weir := killedWhileWriting(t, random, guardedGroupRules, "kafka: {hits: {partitions: 3}}\n", unequalNetworks(random, 20_000))
	want := guardedGroups(t, weir, i.folder)
	var fault error
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(fault)
		}
	})
	wait.Until(t, "the networks on the list are those of the backtest", func() bool {
		fault = listedGuarded(weir, i.folder, want)
		return fault == nil
	})
}

// The same for the three daemons, their store and Kafka.
func TestGuardedGroupsOfAllPartsUnderFire(t *testing.T) {
	real.Long(t)
	t.Parallel()
	r, folder, weir := strickenWhileWriting(t, guardedGroupRules, "", unequalNetworks)
	want := guardedGroups(t, weir, folder)
	r.eventually("the networks on the list are those of the backtest", func() error { return listedGuarded(weir, folder, want) })
	r.stop()
}
