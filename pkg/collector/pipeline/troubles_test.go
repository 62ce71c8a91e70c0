package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/telemetry"
)

// Several problems of a source are shown at once, the last one first. Each is cleared by what mends it, and by nothing else.
func TestSeveralProblemsOfASource(t *testing.T) {
	in, err := newRig(t, "rules: [{name: per-ip, key: ip, limits: [1/s]}]").pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: "none", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	shows := func(want ...string) {
		t.Helper()
		status := in.Status("file")
		var got []string
		for _, text := range status.Errors {
			what, _, _ := strings.Cut(text, " (")
			got = append(got, what)
		}
		if !slices.Equal(got, want) || (len(want) == 0) != (status.Error == "") || len(want) > 0 && status.Error != status.Errors[0] {
			t.Errorf("%q and %q, want %q", status.Error, status.Errors, want)
		}
	}
	shows()
	in.Trouble("open", errors.New("a cannot be opened"))
	in.Trouble("open", errors.New("b cannot be opened"))
	in.TroubleOf("c", "read", errors.New("c is damaged"))
	in.Fault("d", errors.New("d is away"))
	shows("d is away", "c is damaged", "b cannot be opened")
	in.MendedOf("d", "take", "read")
	in.Mended("read")
	in.MendedOf("c", "take")
	in.Mended("connect")
	shows("c is damaged", "b cannot be opened")
	in.Mended("open")
	shows("c is damaged")
	in.Fault("c", nil)
	shows()

	for n := range 100 {
		in.TroubleOf(fmt.Sprint(n), "read", errors.New("away"))
	}
	if status := in.Status("file"); len(status.Errors) > mostTroubles || len(in.troubles.all) != mostTroubles {
		t.Errorf("%d problems are shown", len(status.Errors))
	}
}

// A problem that nothing mends is shown for an hour after the last time, and others until they are mended.
func TestIncidentsPass(t *testing.T) {
	rig := newRig(t, "rules: [{name: per-ip, key: ip, limits: [1/s]}]")
	now := time.Now()
	rig.pipeline.config.Now = func() time.Time { return now }
	in, err := rig.pipeline.NewIntake(IntakeConfig{Name: "test", Envelope: "none", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	in.Trouble("open", errors.New("a cannot be opened"))
	in.Incident("connection", errors.New("a connection broke"))
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 2}, {59 * time.Minute, 2}, {2 * time.Minute, 1}, {24 * time.Hour, 1}} {
		if now = now.Add(step.after); len(in.Status("syslog").Errors) != step.want {
			t.Errorf("%v later: %q", step.after, in.Status("syslog").Errors)
		}
	}
	in.Incident("connection", errors.New("another one broke"))
	if got := in.Status("syslog").Errors; len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// Nothing mends hits that are lost.
func TestLostHitsAreAnIncident(t *testing.T) {
	r := newRig(t, perIP)
	now := time.Now()
	r.pipeline.config.Now = func() time.Time { return now }
	r.sink.Refuse = errors.New("refused")
	s := r.stream(t, StreamConfig{})
	s.mustAdd(t, logLine(1, now))
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.in.Status("http").Errors; len(got) != 1 || !strings.Contains(got[0], "hits of a log are lost: refused") {
		t.Errorf("%q", got)
	}
	now = now.Add(2 * incidentShown)
	if got := s.in.Status("http").Errors; len(got) != 0 {
		t.Errorf("%q after an hour", got)
	}
}

// A problem has a bound, whatever a server sent.
func TestALongProblemIsCutOff(t *testing.T) {
	var all troubles
	all.note(trouble{what: strings.Repeat("x", 100_000)})
	if got := all.texts(time.Now())[0]; len(got) > 5000 || !strings.Contains(got, "… (100000 bytes)") {
		t.Errorf("%d bytes: %.100s", len(got), got)
	}
}

func TestTroublesWithoutSecrets(t *testing.T) {
	telemetry.Secret("a file of this test", "hush-hush-hush")
	var all troubles
	all.note(trouble{log: "logs", operation: "read", what: "unknown command AUTH with hush-hush-hush", at: time.Now()})
	if texts := all.texts(time.Now()); len(texts) != 1 || !strings.HasPrefix(texts[0], "unknown command AUTH with *** (") {
		t.Error(texts)
	}
}
