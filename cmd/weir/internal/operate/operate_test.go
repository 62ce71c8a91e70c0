package operate

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weir/cmd/internal/exit"
	"weir/pkg/blocklist"
	"weir/test/running"
)

// A desk is where a test types commands.
type desk struct {
	t     *testing.T
	flags []string
}

// newDesk runs an enforcer with these entries for the commands.
func newDesk(t *testing.T, entries ...*blocklist.Entry) *desk {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	folder := running.Folder(t)
	e, err := running.StartEnforcer(folder, nil, running.List(1, entries...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &desk{t, []string{"--set", "enforcer.socket=" + filepath.Join(folder, "weir.sock"), "--set", "data=" + folder}}
}

// types runs a command and requires its exit code.
func (d *desk) types(code int, args ...string) string {
	d.t.Helper()
	root := &cobra.Command{Use: "weir", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands()...)
	var out bytes.Buffer
	root.SetArgs(slices.Concat(args, d.flags))
	root.SetIn(strings.NewReader(""))
	root.SetOut(&out)
	root.SetErr(&out)
	if got := exit.Report(root.ExecuteContext(d.t.Context()), &out); got != code {
		d.t.Errorf("weir %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out.String())
	}
	return out.String()
}

func address(rule, ip string) *blocklist.Entry {
	return running.BlockedNow(rule, ip, map[string]string{"ip": ip})
}

// Entries that apply to a key come with the pauses that keep them from refusing anyone.
func TestListOfAKeyNamesPauses(t *testing.T) {
	d := newDesk(t, address("per-ip", "203.0.113.7"), address("sign-in", "198.51.100.1"))
	d.types(exit.Done, "pause", "per-ip", "--for", "1h", "--why", "false alarms")
	if got := d.types(exit.Done, "list", "203.0.113.7"); !strings.Contains(got, "\npause  per-ip") || !strings.Contains(got, "false alarms") {
		t.Errorf("the pause of its rule is not named\n%s", got)
	}
	if got := d.types(exit.NotMet, "list", "203.0.113.7", "--orders", "--json"); !strings.Contains(got, `"order":"pause"`) {
		t.Errorf("a program does not get the pause\n%s", got)
	}
	if got := d.types(exit.Done, "list", "203.0.113.7", "--json"); strings.Count(got, "\n") != 1 {
		t.Errorf("a program gets more than the entries\n%s", got)
	}
	if got := d.types(exit.Done, "list", "198.51.100.1"); strings.Contains(got, "pause") {
		t.Errorf("the pause of another rule is named\n%s", got)
	}

	d.types(exit.Done, "pause", "--for", "1h", "--why", "an incident")
	for key, code := range map[string]int{"198.51.100.1": exit.Done, "192.0.2.99": exit.NotMet} {
		if got := d.types(code, "list", key); !strings.Contains(got, "pause  *") {
			t.Errorf("%s: the pause of everything is not named\n%s", key, got)
		}
	}
	if got := d.types(exit.NotMet, "list", "198.51.100.1", "--shadow"); strings.Contains(got, "pause") {
		t.Errorf("--shadow shows a pause\n%s", got)
	}
}

// The list has the same order at each call and at each enforcer: by rule, then by key.
func TestListIsSorted(t *testing.T) {
	var entries []*blocklist.Entry
	for i := range 60 {
		entries = append(entries, address([]string{"b-rule", "a-rule"}[i%2], "203.0.113."+string(rune('0'+i/10))+string(rune('0'+i%10))))
	}
	first := newDesk(t, entries...)
	slices.Reverse(entries)
	second := newDesk(t, entries...)
	for _, d := range []*desk{first, second} {
		for _, ip := range []string{"192.0.2.2", "192.0.2.1"} {
			d.types(exit.Done, "allow", ip, "--until", "2100-01-01T00:00:00Z", "--why", "x")
		}
	}

	for _, form := range []string{"text", "json", "plain"} {
		got := first.types(exit.Done, "list", "-o", form)
		if other := second.types(exit.Done, "list", "-o", form); other != got {
			t.Errorf("%s differs between two enforcers:\n%s\n%s", form, got, other)
		}
	}
	lines := strings.Split(first.types(exit.Done, "list"), "\n")
	if rows := lines[1:61]; !slices.IsSorted(rows) {
		t.Errorf("not sorted:\n%s", strings.Join(rows, "\n"))
	}
}

// An unblock of an address asks before it ends the block of a network by hand, and says afterwards that it did.
func TestUnblockAsksBeforeItEndsANetwork(t *testing.T) {
	d := newDesk(t, address("per-ip", "203.0.113.7"), address("per-ip", "2001:db8::/64"))
	d.types(exit.Done, "block", "203.0.113.0/24", "--why", "a botnet")

	// Entries of rules alone, and the network itself, need no confirmation.
	if got := d.types(exit.Done, "unblock", "203.0.113.7", "--rule", "per-ip"); strings.Contains(got, "network") {
		t.Errorf("the entry of a rule\n%s", got)
	}
	if got := d.types(exit.Done, "unblock", "2001:db8::5"); strings.Contains(got, "network") {
		t.Errorf("the prefix of a rule\n%s", got)
	}
	got := d.types(exit.Done, "unblock", "::ffff:203.0.113.7") // without a terminal
	for _, want := range []string{"warning: this affects the network 203.0.113.0/24, which ", " blocked (a botnet): everyone in it is let in; ", "use weir allow ::ffff:203.0.113.7 --for 4h", "need --yes"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}

	d.types(exit.Done, "block", "203.0.113.0/24", "--why", "a botnet")
	if got := d.types(exit.Done, "unblock", "203.0.113.7", "--yes"); strings.Contains(got, "warning") || !strings.Contains(got, "That was the block of the network around 203.0.113.7: everyone in 203.0.113.0/24 is let in again.\n") {
		t.Errorf("it does not say what else is let in\n%s", got)
	}
	d.types(exit.Done, "block", "203.0.113.0/24", "--why", "a botnet")
	d.types(exit.Done, "unblock", "203.0.113.0/24")
	d.types(exit.NotMet, "list", "203.0.113.0/24")
}
