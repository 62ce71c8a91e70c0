package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/cmd/internal/exit"
	"weir/pkg/evidence"
	"weir/test/locked"
)

// Someone who is blocked is shown with the requests that counted, by weir explain and over HTTP, without the secrets in
// them. After a kill, blocks and counts are as without evidence, and the evidence is still there.
func TestARunShowsWhy(t *testing.T) {
	folder, enforcer := attemptsIn(t, "[{name: sign-in, match: status == 401, key: ip, limits: [3/min], evidence: 3, block: {for: 1h}}]", "")
	config, log := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "access.log")
	visit := func(client string, requests int) {
		t.Helper()
		f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		at := time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
		for n := range requests {
			fmt.Fprintf(f, "%s - - [%s] \"POST /login/%d?password=secret%d HTTP/1.1\" 401 2 \"-\" \"<script>\\x1b\\xe2\\x80\\xae\"\n", client, at, n, n)
		}
	}
	visit("203.0.113.1", 1)
	p := start(t, "run", "--config", config)
	awaitAnswer(t, p, enforcer, "203.0.113.1", http.StatusOK)
	visit("203.0.113.9", 4)
	awaitAnswer(t, p, enforcer, "203.0.113.9", http.StatusTooManyRequests)
	shows := func(client string) (requests []evidence.Request) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); len(requests) == 0 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			var known struct {
				Evidence []struct{ Requests []evidence.Request }
			}
			var stdout, stderr locked.Buffer
			arguments := []string{"weir", "explain", client, "--json", "--config", config}
			if run(arguments, strings.NewReader(""), &stdout, &stderr) != exit.Done {
				continue // after a start, the aggregator may not have its partitions yet
			}
			if err := json.Unmarshal([]byte(stdout.String()), &known); err != nil {
				t.Fatal(err)
			}
			for _, one := range known.Evidence {
				requests = append(requests, one.Requests...)
			}
		}
		return requests
	}

	got := shows("203.0.113.9")
	if len(got) != 3 || got[0].Client != "203.0.113.9" || got[0].Method != http.MethodPost || got[0].Status != 401 || got[0].Agent != `<script>\x1b\xe2\x80\xae` {
		t.Errorf("the evidence is %+v", got)
	}
	for _, one := range got {
		if !strings.HasPrefix(one.Path, "/login/") || !strings.HasSuffix(one.Path, "?password=***") {
			t.Errorf("the path is %s", one.Path)
		}
	}
	runs(t, exit.Done, "The last requests that counted for sign-in 203.0.113.9, newest first (3 kept, 4 hits counted):\n", "explain", "203.0.113.9", "--config", config)

	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	p = start(t, "run", "--config", config)
	awaitAnswer(t, p, enforcer, "203.0.113.9", http.StatusTooManyRequests)
	if again := shows("203.0.113.9"); fmt.Sprint(again) != fmt.Sprint(got) {
		t.Errorf("after a kill the evidence is %+v", again)
	}
	awaitAnswer(t, p, enforcer, "203.0.113.1", http.StatusOK)
	visit("203.0.113.1", 2) // with the one before the kill: three, which is the limit
	visit("203.0.113.2", 4)
	awaitAnswer(t, p, enforcer, "203.0.113.2", http.StatusTooManyRequests)
	if code := answers(enforcer, "203.0.113.1"); code != http.StatusOK {
		t.Errorf("203.0.113.1 gets %d", code)
	}
	if got := shows("203.0.113.2"); len(got) != 3 {
		t.Errorf("the evidence is %+v", got)
	}
}

// Two users with names made for it, blocked at the same instant: the history has the block of each, with its requests.
func TestARunShowsEachOfTwoUsersOfOneInstant(t *testing.T) {
	rules := "[{name: per-user, key: user, limits: [3/min], block: {for: 1h}}, {name: ready, key: ip, match: path == \"/ready\", limits: [1/min]}]"
	folder, enforcer := attemptsIn(t, rules, "")
	config, log := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "access.log")
	// The xxhash64 of these with anything after them is the same.
	const pad, rest = "uxxxxxxxxxxxxxxxxxxxxxx", "0123456789abcdef01234567"
	users := []string{pad + "O3OeqxuB" + rest + "noHbr1XZ" + rest, pad + "bPy8cq6E" + rest + "OSusnNCt" + rest}
	at := time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
	var lines strings.Builder
	for n, user := range users {
		for range 4 {
			fmt.Fprintf(&lines, "203.0.113.%d - %s [%s] \"GET /of-%d HTTP/1.1\" 200 2 \"-\" \"curl\"\n", n, user, at, n)
		}
	}
	for range 2 {
		fmt.Fprintf(&lines, "203.0.113.9 - - [%s] \"GET /ready HTTP/1.1\" 200 2 \"-\" \"curl\"\n", at)
	}
	if err := os.WriteFile(log, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	p := start(t, "run", "--config", config)
	awaitAnswer(t, p, enforcer, "203.0.113.9", http.StatusTooManyRequests)
	for n, user := range users {
		for _, asks := range []struct{ command, shows string }{{"history", "blocked"}, {"explain", fmt.Sprintf("GET /of-%d ", n)}} {
			var stdout, stderr locked.Buffer
			for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				stdout, stderr = locked.Buffer{}, locked.Buffer{}
				run([]string{"weir", asks.command, user, "--config", config}, strings.NewReader(""), &stdout, &stderr)
				if strings.Contains(stdout.String(), asks.shows) {
					break
				}
			}
			if !strings.Contains(stdout.String(), asks.shows) {
				t.Errorf("%s %s shows %s%s", asks.command, user, stdout.String(), stderr.String())
			}
		}
	}
}

// Refused attempts at an inline rule that led to a block are its evidence, and the requests that were admitted are not.
func TestARunShowsTheRefusedAttemptsOfABlock(t *testing.T) {
	folder, enforcer := attemptsIn(t, "[{name: sign-in, key: ip, limits: [5/min], inline: true, evidence: 3, block: {after: 4, within: 10m, for: 1h}}]", "")
	config := filepath.Join(folder, "weir.yaml")
	p := start(t, "run", "--config", config)
	awaitAnswer(t, p, enforcer, "203.0.113.1", http.StatusOK)
	for n := range 5 + 4 {
		request, err := http.NewRequest(http.MethodGet, "http://"+enforcer+"/v1/check", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Forwarded-For", "203.0.113.9")
		request.Header.Set("X-Forwarded-Method", http.MethodPost)
		request.Header.Set("X-Forwarded-Uri", fmt.Sprintf("/login/%d?password=secret", n))
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}

	var got []evidence.Request
	for deadline := time.Now().Add(time.Minute); len(got) == 0 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var known struct {
			Evidence []struct{ Requests []evidence.Request }
		}
		var stdout, stderr locked.Buffer
		if run([]string{"weir", "explain", "203.0.113.9", "--json", "--config", config}, strings.NewReader(""), &stdout, &stderr) != exit.Done {
			continue
		}
		if err := json.Unmarshal([]byte(stdout.String()), &known); err != nil {
			t.Fatal(err)
		}
		for _, one := range known.Evidence {
			got = append(got, one.Requests...)
		}
	}
	if len(got) != 3 {
		t.Fatalf("the evidence is %+v\n%s", got, p.err)
	}
	for n, one := range got {
		if one.Client != "203.0.113.9" || strings.Contains(one.Path, "secret") || one.Path != "" && !strings.HasPrefix(one.Path, fmt.Sprintf("/login/%d", 8-n)) {
			t.Errorf("request %d is %+v", n, one)
		}
	}
	runs(t, exit.Done, "The last requests that counted for sign-in 203.0.113.9, newest first (3 kept, ", "history", "203.0.113.9", "--evidence", "--config", config)
	runs(t, exit.Done, `,"evidence":[{"time":"20`, "history", "203.0.113.9", "--evidence", "--json", "--config", config)
	runs(t, exit.WrongUse, "", "history", "203.0.113.9", "--evidence", "--csv", "--config", config)
}
