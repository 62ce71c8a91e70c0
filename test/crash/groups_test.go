package crash

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka/kafkatest"
	"weir/pkg/geoip/geoiptest"
	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

const groupRules = `rules:
  - {name: per-ip, match: status == 404, key: ip, limits: [6/5min], block: {for: 2m, then: [10m]}}
  - {name: paths, match: status == 404, key: ip, distinct: path, limits: [14/10min], mode: shadow, block: {for: 1m}}
  - {name: sprays, on: blocked, match: rule == "per-ip", key: ip/24+48, distinct: ip, limits: [5/20min, 8/1h], mode: enforce, block: {for: 5h}}
  - {name: all-sprays, on: blocked, key: ip/24+48, distinct: ip, limits: [9/15min], block: {for: 5h}}
  - {name: sprays-of-provider, on: blocked, match: 'asn != 64499', key: asn, distinct: ip, limits: [30/30min], block: {for: 5h}}
  - {name: wide-sprays, on: blocked, above: sprays, key: ip/20+40, distinct: ip, limits: [15/20min], mode: enforce, block: {for: 5h}}
  - {name: other-sprays-of-provider, on: blocked, above: sprays, key: asn, distinct: ip, limits: [7/20min], mode: enforce, block: {for: 5h}}
  - {name: top-sprays, on: blocked, above: wide-sprays, key: ip/16+32, distinct: ip, limits: [6/20min], block: {for: 5h}}
`

// providers is a database with four of the twenty networks to each provider.
func providers(t *testing.T) string {
	t.Helper()
	networks := map[string]geoiptest.Entry{}
	for n := range 20 {
		networks[fmt.Sprintf("198.51.%d.0/24", n)] = geoiptest.Entry{ASN: uint32(64500 + n%5)}
	}
	return geoiptest.Write(t, filepath.Join(t.TempDir(), "asn.mmdb"), 1, networks)
}

// networks are lines of some addresses of each of twenty networks. In some of these, many ask for too much. Some lines are
// minutes late.
func networks(random *rand.Rand, lines int) (text []string) {
	begin := time.Now().Add(-50 * time.Minute)
	for n := range lines {
		at := begin.Add(time.Duration(n) * 45 * time.Minute / time.Duration(lines))
		if random.IntN(10) == 0 {
			at = at.Add(-time.Duration(random.IntN(300)) * time.Second)
		}
		network := random.IntN(20)
		address := int(random.ExpFloat64() * float64(2+network))
		text = append(text, fmt.Sprintf("198.51.%d.%d - - [%s] \"GET /p%d HTTP/1.1\" 404 5 \"-\" \"a\"\n", network, address%250, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), random.IntN(100)))
	}
	return text
}

// blockedGroups is what a backtest says of group rules: from when each network is blocked, by rule and network. Their first
// blocks are their last.
func blockedGroups(t *testing.T, weir, rules, databases, log string) map[string]string {
	t.Helper()
	var report struct {
		Rules []struct {
			Rule    string
			Blocked []struct{ Key, First, Limit string }
		}
	}
	out, err := exec.Command(weir, "backtest", "--rules", rules, "--geoip", databases, "--json", log).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, r := range report.Rules {
		for _, b := range r.Blocked {
			if strings.Contains(r.Rule, "sprays") {
				want[r.Rule+" "+b.Key] = b.First + " " + b.Limit
			}
		}
	}
	levels := map[string]bool{}
	for key := range want {
		rule, _, _ := strings.Cut(key, " ")
		levels[rule] = true
	}
	systems := slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(key string) bool { return strings.HasPrefix(key, "sprays-of-provider 645") })
	if len(want) < 8 || !systems || len(levels) < 6 {
		t.Fatalf("only %d networks are blocked: %v", len(want), want)
	}
	return want
}

// listedGroups says how the list differs from what is wanted of group rules.
func listedGroups(weir, config string, want map[string]string) error {
	out, err := exec.Command(weir, "list", "--config", config, "--json").Output()
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var e struct{ Rule, Key, From, Limit, Why string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return err
		}
		if !strings.Contains(e.Rule, "sprays") {
			continue
		}
		if got[e.Rule+" "+e.Key] = e.From + " " + e.Limit; !strings.Contains(e.Why, " blocked addresses: 198.51.") {
			return fmt.Errorf("%s does not name its addresses: %q", e.Key, e.Why)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d networks, want %d", len(got), len(want))
	}
	for key := range want {
		if text, ok := got[key]; !ok || text != want[key] {
			return fmt.Errorf("%s: %q, want %q", key, text, want[key])
		}
	}
	return nil
}

// Group rules block the same networks from the same times on as a backtest, though the process is killed again and again.
func TestGroupsUnderFire(t *testing.T) {
	real.Long(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	databases := providers(t)
	settings := fmt.Sprintf("kafka: {hits: {partitions: 3}, events: {partitions: 3}}\ngeoip: {databases: [%q]}\n", databases)
	i, weir := killedWhileWriting(t, random, groupRules, settings, networks(random, 20_000))

	want := blockedGroups(t, weir, filepath.Join(i.folder, "rules.yaml"), databases, filepath.Join(i.folder, "all.log"))
	var fault error
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v\n%s", fault, i.said.String())
		}
	})
	wait.Until(t, "the networks on the list are those of the backtest", func() bool {
		fault = listedGroups(weir, filepath.Join(i.folder, "weir.yaml"), want)
		return fault == nil
	})
}

// The same for the three daemons, two of them aggregators: any of them is killed at any time, Redis loses its last second,
// and Kafka is restarted.
func TestGroupsOfAllPartsUnderFire(t *testing.T) {
	real.Long(t)
	t.Parallel()
	databases := providers(t)
	r, folder, weir := strickenWhileWriting(t, groupRules, fmt.Sprintf("geoip: {databases: [%q]}\n", databases), networks)
	want := blockedGroups(t, weir, filepath.Join(folder, "rules.yaml"), databases, filepath.Join(folder, "all.log"))
	r.eventually("the networks on the list are those of the backtest", func() error {
		return listedGroups(weir, filepath.Join(folder, "weir.yaml"), want)
	})
	r.stop()
	t.Logf("%d networks", len(want))
}

// strickenWhileWriting has the three daemons, two of them aggregators, read lines while any of them is killed, and what they
// use. The folder has the configuration of one, all lines as all.log, and the rules.
func strickenWhileWriting(t *testing.T, rules, settings string, lines func(*rand.Rand, int) []string) (r *river, folder, weir string) {
	t.Helper()
	kills := number(t, "WEIR_CRASH_KILLS", 8)
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	s := newSite(t, seed)
	defer s.file.Close()
	r = riverOn(t, kafkatest.Real(t, kafkatest.Options{}), ownPrefix, partitions, rules+settings)
	r.patience = 2 * time.Minute
	enforcer := port.Reserve(t, "127.0.0.1")
	for _, part := range []string{"aggregator", "aggregator", "collector", "enforcer"} {
		r.installPart(part, s, enforcer).start()
	}

	random, done := rand.New(rand.NewPCG(seed, 9)), map[string]int{}
	all := lines(random, 20_000)
	rest := all
	for n := range kills {
		some := len(rest) / (kills - n)
		if _, err := s.file.WriteString(strings.Join(rest[:some], "")); err != nil {
			t.Fatal(err)
		}
		rest = rest[some:]
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		r.strike(n, random, done)
	}

	folder = r.members[len(r.members)-1].folder
	for name, text := range map[string]string{"all.log": strings.Join(all, ""), "rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d: %v", seed, done)
	return r, folder, build(t, "weir")
}
