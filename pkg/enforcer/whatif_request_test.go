package enforcer

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/internal/topic"
	"weir/pkg/enforcer/whatif"
)

// Questions about other limits are checked before a hit is read, and answered one at a time.
func TestWhatIf(t *testing.T) {
	var asked whatif.Question
	var fails error
	running := make(chan struct{})
	wait := make(chan struct{})
	close(wait)
	r := start(t, list(t), func(c *Config) {
		c.Keys = nil
		c.WhatIf = func(ctx context.Context, q whatif.Question) (*whatif.Answer, error) {
			asked = q
			select {
			case running <- struct{}{}:
			default:
			}
			select {
			case <-wait:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			q.Turn()()
			return &whatif.Answer{Rule: q.Rule.Name}, fails
		}
	})
	for query, says := range map[string]string{
		"rule=per-ipp&limits=1/min": `rule \"per-ipp\" is not one of the rules: did you mean per-ip?`, "limits=1/min": "is not one of the rules", "rule=per-ip": "limits are 1 to 8 limits",
		"rule=per-ip&limits=ten": "is no limit", "rule=per-ip&limits=1/min,,2/min,1/s,1/s,1/s,1/s,1/s,1/s,1/s": "limits are 1 to 8 limits", "rule=per-ip&limits=1/min&since=2400h": "since is up to 31 days ago",
		"rule=per-ip&limits=1/min&since=soon": "since is a time", "rule=per-ip&limits=1/min&at=1h": "is not known",
	} {
		if got := r.get("/v1/whatif?" + query); got.status != http.StatusBadRequest || !strings.Contains(got.body, says) {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}

	if got := r.get("/v1/whatif?rule=per-ip&limits=20/min,500/hour&since=6h"); got.status != http.StatusOK || !strings.Contains(got.body, `"rule":"per-ip"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if ago := time.Since(asked.Since); len(asked.Limits) != 2 || asked.Limits[1].Text != "500/hour" || ago < 6*time.Hour || ago > 7*time.Hour || asked.Fingerprint != r.Rules().Fingerprint() {
		t.Errorf("%+v", asked)
	}
	for _, one := range []error{whatif.ErrTooMuch, topic.Errorf(topic.ErrForbidden, "no"), errors.New("away")} {
		fails = one
		if got := r.get("/v1/whatif?rule=per-ip&limits=20/min"); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, one.Error()) {
			t.Errorf("%v: %d %s", one, got.status, got.body)
		}
	}

	wait, fails = make(chan struct{}), nil
	done := make(chan int)
	go func() { done <- r.get("/v1/whatif?rule=per-ip&limits=20/min").status }()
	<-running
	if got := r.get("/v1/whatif?rule=per-ip&limits=20/min"); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "another question") {
		t.Errorf("a second one: %d %s", got.status, got.body)
	}
	close(wait)
	if status := <-done; status != http.StatusOK {
		t.Errorf("the first one: %d", status)
	}
}

// An enforcer without hits names the place to ask.
func TestNoHitsForWhatIf(t *testing.T) {
	r := start(t, list(t), func(c *Config) { c.Keys, c.Follows = nil, "https://other" })
	if got := r.get("/v1/whatif?rule=per-ip&limits=20/min"); got.status != http.StatusNotFound || !strings.Contains(got.body, "follows https://other") {
		t.Errorf("%d %s", got.status, got.body)
	}
}
