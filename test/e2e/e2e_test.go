package e2e

import (
	"net/http"
	"testing"
	"time"

	"weir/test/real"
	"weir/test/wait"
)

// blockFor is long enough to be noticed, and short enough to wait for its end.
const (
	blockFor = 10 * time.Second
	rules    = "rules: [{name: per-ip, key: ip, limits: [10/min], block: {for: 10s, then: [10s]}}]\n"
)

func TestDaemonsApart(t *testing.T) {
	real.Long(t)
	f := newFleet(t, rules, apart(t))
	for _, part := range []string{"collector", "aggregator", "enforcer"} {
		f.start(build(t, part, "-race"))
	}
	f.ready()
	refusesWhoSendsTooMuch(t, newSite(t, f))
}

func TestInOneProcess(t *testing.T) {
	real.Long(t)
	f := newFleet(t, rules, "")
	f.start(build(t, "weir", "-race"), "run")
	f.ready()
	refusesWhoSendsTooMuch(t, newSite(t, f))
}

// refusesWhoSendsTooMuch has one client exceed its limit and stop, one exceed it and continue, and one stay below it.
// Both offenders pass again when their blocks are over.
func refusesWhoSendsTooMuch(t *testing.T, s *site) {
	const stops, goesOn, keeps = "127.0.0.2", "127.0.0.3", "127.0.0.4"
	for i := range 10 {
		for _, client := range []string{stops, goesOn, keeps} {
			if client == keeps && i == 0 {
				continue // it has one request left for the end
			}
			if status := s.get(client); status != http.StatusOK {
				t.Fatalf("%s keeps to the limit and gets %d", client, status)
			}
		}
	}
	for _, client := range []string{stops, goesOn} {
		wait.Until(t, client+" was refused", func() bool { return s.get(client) == http.StatusTooManyRequests })
	}
	refused := time.Now()
	if status := s.get(keeps); status != http.StatusOK {
		t.Errorf("who keeps to the limit gets %d", status)
	}
	wait.Until(t, goesOn+" was let in again though it goes on", func() bool { return s.get(goesOn) == http.StatusOK })
	if took := time.Since(refused); took > 4*blockFor {
		t.Errorf("who goes on was let in after %v only, its block lasts %v", took, blockFor)
	}
	wait.Until(t, stops+" was let in again", func() bool { return s.get(stops) == http.StatusOK })
}
