package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/test/locked"
)

// A blocked client that goes on is shown with what was refused: by weir list, explain and top. It comes first in weir top,
// also where nothing of it counts any more.
func TestARunShowsWhatWasRefused(t *testing.T) {
	folder, enforcer := attemptsIn(t, "[{name: per-ip, key: ip, limits: [3/s], block: {for: 1h}}]", "")
	config, log := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "access.log")
	var lines strings.Builder
	at := time.Now().UTC().Add(-2 * time.Second).Format("02/Jan/2006:15:04:05 -0700")
	for range 4 {
		fmt.Fprintf(&lines, "203.0.113.9 - - [%s] \"GET / HTTP/1.1\" 200 2 \"-\" \"curl\"\n", at)
	}
	if err := os.WriteFile(log, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	p := start(t, "run", "--config", config)
	awaitAnswer(t, p, enforcer, "203.0.113.9", http.StatusTooManyRequests)
	for range 30 {
		if code := answers(enforcer, "203.0.113.9"); code != http.StatusTooManyRequests {
			t.Fatalf("it gets %d", code)
		}
	}
	runs(t, exit.Done, "  REFUSED  WHY\n", "list", "--config", config)
	runs(t, exit.Done, "Z  31       4 hits broke 3/s\n", "list", "203.0.113.9", "--config", config)
	runs(t, exit.Done, `"refused":31,"last_refused":"20`, "list", "--json", "--config", config)
	runs(t, exit.Done, "203.0.113.9\n", "list", "-o", "plain", "--config", config)

	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var stdout, stderr locked.Buffer
		if run([]string{"weir", "explain", "203.0.113.9", "--config", config}, strings.NewReader(""), &stdout, &stderr) == exit.Done {
			if !strings.Contains(stdout.String(), "\n    It has refused 31 requests, the last at 20") {
				t.Errorf("explain: %s", stdout.String())
			}
			break
		}
		if time.Now().After(deadline) { // after a start, the aggregator may not have its partitions yet
			t.Fatalf("explain: %s", stderr.String())
		}
	}
	runs(t, exit.Done, `"refused":31,"last_refused":"20`, "explain", "203.0.113.9", "--json", "--config", config)

	// A minute may have begun since, so the estimate may be a little less than 31.
	var stdout, stderr locked.Buffer
	if code := run([]string{"weir", "top", "--config", config}, strings.NewReader(""), &stdout, &stderr); code != exit.Done {
		t.Fatalf("top: %d %s", code, stderr.String())
	}
	rows := strings.Split(stdout.String(), "\n")
	if cells := strings.Fields(rows[1]); len(cells) != 7 || cells[1] != "203.0.113.9" || cells[3] != "3/s" || cells[5] != "yes" || cells[6] < "10" || cells[6] > "31" {
		t.Errorf("top: %s", stdout.String())
	}
	runs(t, exit.Done, `"refused":31,"refused_last_minute":`, "top", "--json", "--config", config)
}
