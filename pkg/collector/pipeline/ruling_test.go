package pipeline

import (
	"testing"
	"time"

	"weir/pkg/rule"
)

// TestOtherRulesReadOtherFields: new rules count from the first cut that is made by them. The record that is being
// judged meanwhile is judged by the rules that it was read for.
func TestOtherRulesReadOtherFields(t *testing.T) {
	r := newRig(t, perIP)
	s := r.stream(t, StreamConfig{})
	line := []byte(`203.0.113.1 - alice [` + time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700") + `] "GET /a HTTP/1.1" 200 2 "-" "-"`)
	s.mustAdd(t, line)
	set, _, err := rule.Parse("rules.yaml", []byte("rules: [{name: per-user, key: [user, path], limits: [10/min]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	before := s.ruling
	r.pipeline.SetRules(set, nil)
	s.open.To++
	if err := s.cutBefore(t.Context()); err != nil || s.ruling != before || s.open.Fingerprint != before.fingerprint {
		t.Errorf("%v, %q in the middle of a record", err, s.ruling.names)
	}
	s.position++
	s.endCut()
	s.mustAdd(t, line)
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	counts, _ := r.sink.Counted(t)
	if counts["per-ip 203.0.113.1"] == 0 || counts["per-user alice /a"] != 1 {
		t.Error(counts)
	}
}

// TestRulesThatChangeHoldFromTheNextCut reloads the rules in the middle of a log.
func TestRulesThatChangeHoldFromTheNextCut(t *testing.T) {
	r := newRig(t, perIP)
	other := newRig(t, "rules: [{name: per-path, key: path, limits: [10/min]}]\n")
	s := r.stream(t, StreamConfig{})
	s.mustAdd(t, logLine(1, time.Now()))
	r.pipeline.SetRules(other.pipeline.ruling.Load().set, nil)
	s.mustAdd(t, logLine(2, time.Now()))
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mustAdd(t, logLine(3, time.Now()))
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, _ := r.sink.Counted(t)
	if len(got) != 3 || got["per-ip 203.0.113.1"] != 1 || got["per-ip 203.0.113.2"] != 1 || got["per-path /3"] != 1 {
		t.Errorf("counted %v", got)
	}
}
