package crash

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"weir/test/real"
	"weir/test/wait"
)

// someErrors are lines of 40 clients, whose requests fail more or less often. Some lines are minutes late. The last lines
// are of other clients, so many that each partition has some: they move its time on.
func someErrors(random *rand.Rand, lines int) (text []string) {
	begin := time.Now().Add(-80 * time.Minute)
	line := func(client string, at time.Time, status int) {
		text = append(text, fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" %d 5 \"-\" \"a\"\n", client, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), status))
	}
	for n := range lines {
		at := begin.Add(time.Duration(n) * 60 * time.Minute / time.Duration(lines))
		if random.IntN(10) == 0 {
			at = at.Add(-time.Duration(random.IntN(300)) * time.Second)
		}
		client := random.IntN(40)
		status := 200
		if random.IntN(10) < 3+client%3*2 {
			status = 404
		}
		line(fmt.Sprintf("198.51.100.%d", client), at, status)
	}
	for n := range 200 {
		line(fmt.Sprintf("203.0.113.%d", n), time.Now(), 200)
	}
	return text
}

// A rule with a share blocks the same keys from the same times on as a backtest, though the process is killed again and
// again.
func TestSharesUnderFire(t *testing.T) {
	real.Long(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	i, weir := killedWhileWriting(t, random, `rules:
  - {name: hour, key: ip, share: {of: status == 404, over: 60%, least: 30, within: 10m, late: 6m}, block: {for: 3h}}
`, "", someErrors(random, 12_000))

	wantOfBacktest(t, i, weir, 10, 35)
}

// wantOfBacktest waits until the list has the keys of the rule hour, from the same times on, that a backtest of all lines blocks.
// Between least and most of them are expected.
func wantOfBacktest(t *testing.T, i *installation, weir string, least, most int) {
	t.Helper()
	var report struct {
		Rules []struct {
			Blocked []struct{ Key, First, Limit string }
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
	for _, b := range report.Rules[0].Blocked {
		want["hour "+b.Key] = b.First + " " + b.Limit
	}
	if len(want) < least || len(want) > most {
		t.Fatalf("%d keys are blocked", len(want))
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
