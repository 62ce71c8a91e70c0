package crash

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// manyPaths are lines of 40 clients. A third of these ask for many different paths, and some lines are minutes late.
func manyPaths(random *rand.Rand, lines int) (text []string) {
	begin := time.Now().Add(-50 * time.Minute)
	for n := range lines {
		at := begin.Add(time.Duration(n) * 45 * time.Minute / time.Duration(lines))
		if random.IntN(10) == 0 {
			at = at.Add(-time.Duration(random.IntN(300)) * time.Second)
		}
		client := random.IntN(40)
		path := random.IntN(10 + client%3*60)
		text = append(text, fmt.Sprintf("198.51.100.%d - - [%s] \"GET /p%d HTTP/1.1\" 404 5 \"-\" \"a\"\n", client, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), path))
	}
	return text
}

// Rules of different values block the same keys from the same times on as a backtest, though the process is killed again
// and again.
func TestDifferentValuesUnderFire(t *testing.T) {
	real.Long(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	i, weir := killedWhileWriting(t, random, `rules:
  - {name: hour, match: status == 404, key: ip, distinct: path, limits: [60/hour, 30/5min], block: {for: 3h}}
  - {name: short, match: status == 404, key: ip, distinct: path, limits: [40/10min], block: {for: 1m, then: [3h]}}
`, "", manyPaths(random, 12_000))

	var report struct {
		Rules []struct {
			Rule    string
			Blocked []struct {
				Key, First, Limit string
				Blocks            int
			}
		}
	}
	out, err := exec.Command(weir, "backtest", "--rules", filepath.Join(i.folder, "rules.yaml"), "--json", filepath.Join(i.folder, "all.log")).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, r := range report.Rules {
		for _, b := range r.Blocked {
			switch {
			case r.Rule == "hour": // its first block is its last
				want[r.Rule+" "+b.Key] = b.First + " " + b.Limit
			case b.Blocks > 1:
				want[r.Rule+" "+b.Key] = ""
			}
		}
	}
	if len(want) < 20 {
		t.Fatalf("only %d keys are blocked", len(want))
	}

	var fault error
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v\n%s", fault, i.said.String())
		}
	})
	wait.Until(t, "the list is that of the backtest", func() bool {
		fault = listed(weir, i.folder, want)
		return fault == nil
	})
}

// listed says how the list differs from what is wanted by rule and key: from when a key is blocked and by which limit, for
// the rule hour.
func listed(weir, folder string, want map[string]string) error {
	out, err := exec.Command(weir, "list", "--config", filepath.Join(folder, "weir.yaml"), "--json").Output()
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var e struct{ Rule, Key, From, Limit string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return err
		}
		if got[e.Rule+" "+e.Key] = ""; e.Rule == "hour" {
			got[e.Rule+" "+e.Key] = e.From + " " + e.Limit
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d keys, want %d", len(got), len(want))
	}
	for key := range want {
		if text, ok := got[key]; !ok || text != want[key] {
			return fmt.Errorf("%s: %q, want %q", key, text, want[key])
		}
	}
	return nil
}

// killedWhileWriting kills a weir run with rules again and again while lines are written into the log that it reads. At the
// end it runs. Its folder has rules.yaml, and all.log with all lines.
func killedWhileWriting(t *testing.T, random *rand.Rand, rules, settings string, all []string) (i *installation, weir string) {
	t.Helper()
	i = &installation{t: t, part: "weir", arguments: []string{"run"}, folder: t.TempDir()}
	weir = build(t, "weir")
	i.write("rules.yaml", rules)
	log := filepath.Join(i.folder, "access.log")
	i.write("weir.yaml", fmt.Sprintf("mode: enforce\nrules: rules.yaml\ndata: data\n%scollector: {listen: \"\", sources: [{file: %q, format: combined}]}\naggregator: {listen: \"\"}\nenforcer: {listen: %q, admin: \"\"}\n",
		settings, log, port.Reserve(t, "127.0.0.1")))
	t.Cleanup(i.kill)

	i.write("access.log", "")
	i.write("all.log", strings.Join(all, ""))
	file, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for rest := all; len(rest) > 0; {
		i.start()
		for range 2 {
			n := min(len(rest), 1+random.IntN(len(all)/6))
			if _, err := file.WriteString(strings.Join(rest[:n], "")); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		}
		i.kill()
	}
	i.start()
	return i, weir
}
