package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A run that reads a backlog of two logs keeps them as near to each other as its rules need: clients whose good requests are
// in the other log are not blocked for a share that they do not have.
func TestABacklogOfTwoLogsHasTheSharesOfBoth(t *testing.T) {
	folder, enforcer := attemptsIn(t, "[{name: errors, key: ip, share: {of: status == 404, over: 50%, least: 20, within: 10m, late: 1m}, block: {for: 24h}}]", "")
	file := filepath.Join(folder, "weir.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "access.log", `"*.log"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}

	var logs [2]strings.Builder
	add := func(log int, at time.Time, client string, status int) {
		fmt.Fprintf(&logs[log], "%s - - [%s] \"GET / HTTP/1.1\" %d 2 \"-\" \"-\"\n", client, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), status)
	}
	now := time.Now()
	for second := range 3 * 3600 {
		at := now.Add(time.Duration(second)*time.Second - 4*time.Hour)
		for log := range 2 {
			for client := range 4 {
				add(log, at, fmt.Sprintf("203.0.113.%d", client), []int{404, 200}[(log+client)%2])
			}
		}
	}
	for client := range 20 { // these move the time on in each partition
		for second := range 30 {
			add(0, now.Add(time.Duration(second)*time.Second-10*time.Minute), fmt.Sprintf("198.51.100.%d", client), 404)
		}
		add(1, now, fmt.Sprintf("192.0.2.%d", client), 200)
	}
	for i := range logs {
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(i, ".log")), []byte(logs[i].String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	p := start(t, "run", "--config", file)
	for client := range 20 {
		awaitAnswer(t, p, enforcer, fmt.Sprintf("198.51.100.%d", client), http.StatusTooManyRequests)
	}
	for client := range 4 {
		if ip := fmt.Sprintf("203.0.113.%d", client); answers(enforcer, ip) != http.StatusOK {
			t.Errorf("%s is blocked, and half of its requests are good", ip)
		}
	}
}
