package operate

import (
	"strings"
	"testing"

	"weir/cmd/internal/exit"
	"weir/pkg/blocklist"
)

// A person sees what a guard holds back, and confirms the rule.
func TestGuard(t *testing.T) {
	guarded := address("per-ip", "203.0.113.7")
	guarded.Mode, guarded.Guarded = blocklist.Shadow, true
	d := newDesk(t, guarded, address("per-ip", "203.0.113.8"))
	lists := func(want string) {
		t.Helper()
		if got := strings.Join(strings.Fields(d.types(exit.Done, "guard")), " "); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	lists("RULE GUARD GUARDED BEYOND STATE per-ip 500/min 1 most_new not refused")
	if got := d.types(exit.Done, "list"); !strings.Contains(got, "guarded by most_new: not refused") {
		t.Error(got)
	}
	d.types(exit.WrongUse, "guard", "confirm", "--why", "an attack")
	d.types(exit.WrongUse, "guard", "confirm", "per-ip")
	d.types(exit.NotMet, "guard", "end", "per-ip")
	if got := d.types(exit.Done, "guard", "confirm", "per-ip", "--why", "an attack"); !strings.Contains(got, "per-ip is confirmed until") {
		t.Error(got)
	}
	lists("per-ip 500/min 1 most_new confirmed until")
	if got := d.types(exit.Done, "list"); strings.Contains(got, "not refused") {
		t.Error(got)
	}
	if got := d.types(exit.Done, "guard", "--json"); !strings.Contains(got, `"guarded": 1`) && !strings.Contains(got, `"guarded":1`) {
		t.Error(got)
	}
	d.types(exit.Done, "guard", "end", "per-ip", "--why", "customers")
	lists("per-ip 500/min 1 most_new not refused")
}

// The bound that the guarded entries exceed is shown.
func TestGuardOfAShare(t *testing.T) {
	guarded := address("per-ip", "203.0.113.7")
	guarded.Mode, guarded.Guarded, guarded.ByShare = blocklist.Shadow, true, true
	d := newDesk(t, guarded)
	if got := strings.Join(strings.Fields(d.types(exit.Done, "guard")), " "); !strings.Contains(got, "per-ip 500/min 1 most_share not refused") {
		t.Error(got)
	}
	if got := d.types(exit.Done, "list"); !strings.Contains(got, "guarded by most_share: not refused") {
		t.Error(got)
	}
	if got := d.types(exit.Done, "guard", "--json"); !strings.Contains(got, `"guarded_by_share"`) {
		t.Error(got)
	}
}

func TestNoGuardHoldsAnythingBack(t *testing.T) {
	if got := newDesk(t, address("per-ip", "203.0.113.8")).types(exit.Done, "guard"); !strings.Contains(got, "No guard keeps blocks from being enforced.") {
		t.Error(got)
	}
}
