//go:build linux

package nftables

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"weir/test/blocked"
	"weir/test/locked"
	"weir/test/wait"
)

// start runs an Agent until the test ends, or stop is called.
func start(t testing.TB, c Config) (a *Agent, stop func()) {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a = New(c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return a, stop
}

// elementsOf returns a set in nft's output: prefixes, each with its timeout in seconds; -1 for ever.
func elementsOf(t testing.TB, set string) map[string]float64 {
	t.Helper()
	out, err := exec.Command("nft", "-j", "list", "set", "inet", "weir", set).Output()
	if err != nil {
		return nil // there is none
	}
	var shown struct {
		Nftables []struct {
			Set struct{ Elem []json.RawMessage }
		}
	}
	if err := json.Unmarshal(out, &shown); err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, part := range shown.Nftables {
		for _, raw := range part.Set.Elem {
			text, seconds := elementOf(t, raw)
			found[text] = seconds
		}
	}
	return found
}

// elementOf reads "10.0.0.1", {"prefix": {"addr": "10.0.0.0", "len": 24}}, and either within {"elem": {"val": …, "expires": 599}}.
func elementOf(t testing.TB, raw json.RawMessage) (text string, seconds float64) {
	t.Helper()
	var elem struct {
		Elem *struct {
			Val     json.RawMessage
			Expires float64
		}
		Prefix struct {
			Addr string
			Len  int
		}
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, -1
	}
	if err := json.Unmarshal(raw, &elem); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if elem.Elem != nil {
		text, _ = elementOf(t, elem.Elem.Val)
		return text, elem.Elem.Expires
	}
	return fmt.Sprintf("%s/%d", elem.Prefix.Addr, elem.Prefix.Len), -1
}

func has(t testing.TB, set string, want ...string) func() bool {
	return func() bool {
		found := elementsOf(t, set)
		return len(found) == len(want) && !slices.ContainsFunc(want, func(w string) bool { _, is := found[w]; return !is })
	}
}

func TestTheKernelHasTheList(t *testing.T) {
	needKernel(t)
	list := blocked.NewList(map[string]time.Duration{"203.0.113.7": time.Hour, "10.0.0.0/24": time.Minute, "2001:db8::/64": time.Hour, "198.51.100.9": 0})
	start(t, Config{List: list})
	wait.Until(t, "IPv4", has(t, set4, "203.0.113.7", "10.0.0.0/24", "198.51.100.9"))
	wait.Until(t, "IPv6", has(t, set6, "2001:db8::/64"))
	for element, want := range map[string]float64{"203.0.113.7": 3600, "10.0.0.0/24": 60, "198.51.100.9": -1} {
		if left := elementsOf(t, set4)[element]; left > want || left < want-30 {
			t.Errorf("%s ends in %v seconds, want %v", element, left, want)
		}
	}
	list.Set(map[string]time.Duration{"203.0.113.7": 2 * time.Hour, "10.0.0.0/24": time.Minute, "10.0.0.1": time.Hour, "10.0.0.2/31": time.Second}, "10.0.0.128/25")
	wait.Until(t, "changes", func() bool { return elementsOf(t, set4)["203.0.113.7"] > 7000 })
	if got := elementsOf(t, set4); !has(t, set4, "203.0.113.7", "10.0.0.0", "10.0.0.1", "10.0.0.2/31", "10.0.0.4/30", "10.0.0.8/29", "10.0.0.16/28", "10.0.0.32/27", "10.0.0.64/26")() {
		t.Errorf("%v", got)
	}
	if got := elementsOf(t, set6); len(got) != 0 {
		t.Errorf("%v is unblocked and there", got)
	}
}

// More elements than fit into a transaction, and of the longest kind, that come, change their ends and go.
func TestALongListIsSeveralTransactions(t *testing.T) {
	needKernel(t)
	prefixes := func(lasts time.Duration) map[string]time.Duration {
		all := map[string]time.Duration{}
		for i := range 2*transactionElements + 1 {
			all[fmt.Sprintf("2001:db8:%x::/64", i)] = lasts
		}
		return all
	}
	list := blocked.NewList(prefixes(time.Hour))
	a, _ := start(t, Config{List: list})
	wait.Until(t, "all", func() bool { return len(elementsOf(t, set6)) == 2*transactionElements+1 })
	list.Set(prefixes(2 * time.Hour))
	wait.Until(t, "all last longer", func() bool {
		shortest := float64(7200)
		for _, seconds := range elementsOf(t, set6) {
			shortest = min(shortest, seconds)
		}
		return shortest > 7000
	})
	list.Set(nil)
	wait.Until(t, "none", func() bool { return len(elementsOf(t, set6)) == 0 })
	if failed := testutil.ToFloat64(a.metrics.refusals); failed > 0 {
		t.Errorf("the kernel refused %v", failed)
	}
}

// The first and last of all addresses, where an interval has no end of its own, and all addresses at once.
func TestTheFirstAndTheLastAddress(t *testing.T) {
	needKernel(t)
	list := blocked.NewList(map[string]time.Duration{"0.0.0.0": time.Hour, "255.255.255.255": time.Hour, "224.0.0.0/3": time.Hour, "::": time.Hour, "ffff:ffff::/32": time.Hour})
	a, _ := start(t, Config{List: list})
	wait.Until(t, "IPv4", func() bool { return len(elementsOf(t, set4)) == 2 })
	list.Set(map[string]time.Duration{"0.0.0.0/0": time.Minute, "::/0": time.Minute})
	wait.Until(t, "all", func() bool { return len(elementsOf(t, set4)) == 1 && len(elementsOf(t, set6)) == 1 })
	list.Set(map[string]time.Duration{"10.0.0.1": time.Minute})
	wait.Until(t, "one", has(t, set4, "10.0.0.1"))
	if failed := testutil.ToFloat64(a.metrics.refusals); failed > 0 {
		t.Errorf("the kernel refused %v", failed)
	}
}

func TestForeignChangesAreUndoneWithinASecond(t *testing.T) {
	needKernel(t)
	registry := prometheus.NewRegistry()
	list := blocked.NewList(map[string]time.Duration{"203.0.113.7": time.Hour, "2001:db8::/64": time.Hour})
	a, _ := start(t, Config{List: list, Metrics: registry})
	whole := func() bool {
		table, err := exec.Command("nft", "list", "table", "inet", "weir").CombinedOutput()
		return err == nil && has(t, set4, "203.0.113.7")() && has(t, set6, "2001:db8::/64")() &&
			strings.Count(string(table), " drop") == 4 && strings.Count(string(table), "priority filter - 10; policy accept") == 2 && !strings.Contains(string(table), "flags dormant")
	}
	wait.Until(t, "the table", whole)
	if checkEvery > time.Second {
		t.Errorf("it looks only every %v", checkEvery)
	}
	for _, line := range []string{
		"nft flush ruleset",
		"nft delete table inet weir",
		"nft flush set inet weir blocked4",
		"nft flush chain inet weir input",
		"nft insert rule inet weir forward accept",
		"nft add element inet weir blocked4 { 192.0.2.1-192.0.2.6 }",
		"nft add element inet weir blocked4 { 192.0.2.1 }",
		"nft delete element inet weir blocked4 { 203.0.113.7 }",
		"nft add table inet weir { flags dormant ; }",
		"nft add chain inet weir input { policy drop ; }",
	} {
		before := testutil.ToFloat64(a.metrics.repairs)
		sh(t, line)
		wait.Until(t, "all is right after "+line, whole)
		wait.Until(t, "it is counted", func() bool { return testutil.ToFloat64(a.metrics.repairs) > before })
	}
}

// Changes elsewhere in the firewall do not make the agent read our sets.
func TestOthersTablesAreTheirs(t *testing.T) {
	needKernel(t)
	a, _ := start(t, Config{List: blocked.NewList(map[string]time.Duration{"203.0.113.7": time.Hour})})
	wait.Until(t, "the table", has(t, set4, "203.0.113.7"))
	kernel, err := openKernel()
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.close()
	if _, _, err := kernel.read(); err != nil {
		t.Fatal(err)
	}
	untouched := func() bool {
		is, err := kernel.untouched()
		return err == nil && is
	}
	sh(t, "nft add table inet other")
	wait.Until(t, "that of others is spared", untouched)
	sh(t, "nft add table inet weir2")
	wait.Until(t, "that of a name like ours is spared", untouched)
	sh(t, "nft add chain inet weir another")
	if is, err := kernel.untouched(); is || err != nil {
		t.Errorf("ours was touched: %v %v", is, err)
	}
	sh(t, "nft delete table inet other")
	sh(t, "nft delete table inet weir2")
	if repairs := testutil.ToFloat64(a.metrics.repairs); repairs != 0 {
		t.Errorf("%v repairs", repairs)
	}
}

func TestTheTableIsKeptOrDeletedAtTheEnd(t *testing.T) {
	needKernel(t)
	for _, keep := range []bool{true, false} {
		_, stop := start(t, Config{List: blocked.NewList(map[string]time.Duration{"203.0.113.7": time.Hour}), Keep: keep})
		wait.Until(t, "the table", has(t, set4, "203.0.113.7"))
		stop()
		if is := has(t, set4, "203.0.113.7")(); is != keep {
			t.Errorf("keep is %v, and it is there: %v", keep, is)
		}
	}
}

// A table of an earlier enforcer stays active until the list is complete. Then it is corrected without being created
// again: its elements stay active all the time.
func TestAKeptTableStaysUntilTheListIsComplete(t *testing.T) {
	needKernel(t)
	_, stop := start(t, Config{List: blocked.NewList(map[string]time.Duration{"203.0.113.7": time.Hour, "203.0.113.8": time.Hour}), Keep: true})
	wait.Until(t, "the table", has(t, set4, "203.0.113.7", "203.0.113.8"))
	stop()
	handle := func() string {
		first, _, _ := strings.Cut(sh(t, "nft -a list table inet weir"), "\n")
		return first
	}
	before := handle()
	list := blocked.NewList(nil)
	list.SetWhole(false)
	start(t, Config{List: list})
	wait.Until(t, "that it has looked thrice", func() bool { return list.Asked() > 3 })
	if !has(t, set4, "203.0.113.7", "203.0.113.8")() {
		t.Error("changed before the list is whole")
	}
	list.SetWhole(true)
	list.Set(map[string]time.Duration{"203.0.113.7": time.Hour, "203.0.113.9": time.Hour})
	wait.Until(t, "the whole list", has(t, set4, "203.0.113.7", "203.0.113.9"))
	if after := handle(); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// A packet of a blocked source is dropped, and one of an unblocked source is let in.
func TestPacketsAreDropped(t *testing.T) {
	needKernel(t)
	router := neighbour(t, 5)
	there := fmt.Sprintf("nsenter -t %d -n ip address add ", router)
	sh(t, "ip address add 2001:db8:ffff::1/32 dev veth5 nodad")
	for _, one := range []string{"192.0.5.8/24", "192.0.5.9/24", "2001:db8::1/32 nodad", "2001:db8:1::1/32 nodad"} {
		sh(t, there+"dev out "+one)
	}
	letIn := func(t *testing.T, source string) bool {
		if strings.Contains(source, ":") {
			return letIn(t, router, source, "2001:db8:ffff::1")
		}
		return letIn(t, router, source, "192.0.5.1")
	}
	list := blocked.NewList(map[string]time.Duration{"192.0.5.9": time.Hour, "2001:db8:1::/64": time.Hour})
	start(t, Config{List: list})
	wait.Until(t, "the sets", func() bool { return has(t, set4, "192.0.5.9")() && has(t, set6, "2001:db8:1::/64")() })
	for _, test := range []struct {
		source string
		want   bool
	}{{"192.0.5.8", true}, {"192.0.5.9", false}, {"2001:db8::1", true}, {"2001:db8:1::1", false}} {
		if got := letIn(t, test.source); got != test.want {
			t.Errorf("%s is let in: %v", test.source, got)
		}
	}
	list.Set(nil)
	wait.Until(t, "unblocked", func() bool { return letIn(t, "192.0.5.9") && letIn(t, "2001:db8:1::1") })
	blocked := func() bool { return !letIn(t, "192.0.5.9") }
	for lasts := time.Second; !blocked(); lasts *= 2 { // the block may have ended before this check
		if lasts > time.Minute {
			t.Fatal("never blocked")
		}
		list.Set(map[string]time.Duration{"192.0.5.9": lasts})
		for end := time.Now().Add(lasts); time.Now().Before(end) && !blocked(); {
			continue
		}
	}
	wait.Until(t, "its end", func() bool { return letIn(t, "192.0.5.9") })
}

// letIn reports whether a datagram comes through from one of the addresses of a process's network, or of ours if there is no
// process, to one of ours.
func letIn(t *testing.T, process int, source, to string) (ok bool) {
	t.Helper()
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(to)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	send := func() error {
		client, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(source)}, server.LocalAddr().(*net.UDPAddr))
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		_, err = client.Write([]byte("hello"))
		return err
	}
	if process > 0 {
		within(t, process, send)
	} else if err := send(); err != nil {
		t.Fatal(err)
	}
	_ = server.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _, err = server.ReadFrom(make([]byte, 16))
	return err == nil
}

// Without the capability one log line has the remedy, and Run goes on.
func TestMissingPermissionsHaveTheirRemedy(t *testing.T) {
	needKernel(t)
	var log locked.Buffer
	registry := prometheus.NewRegistry()
	a := New(Config{List: blocked.NewList(map[string]time.Duration{"203.0.113.7": time.Hour}), Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: registry})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		data := [2]unix.CapUserData{}
		if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
			t.Error(err)
		}
		ended <- a.Run(ctx)
	}()
	wait.Until(t, "it tries again", func() bool { return testutil.ToFloat64(a.metrics.notPermitted) >= 2 })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if lines := log.String(); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "CAP_NET_ADMIN") {
		t.Errorf("%s", lines)
	}
	if why := a.Fault(); !strings.Contains(why, "CAP_NET_ADMIN") {
		t.Errorf("its fault is %q", why)
	}
}

func TestDryRunPrintsCommandsThatNftAccepts(t *testing.T) {
	var script locked.Buffer
	list := blocked.NewList(map[string]time.Duration{"203.0.113.7": time.Hour, "10.0.0.0/24": 0, "2001:db8::/64": time.Hour,
		"2001:db8:7::/64": 7 * 24 * time.Hour, "2001:db8:8::/64": 9 * 365 * 24 * time.Hour})
	_, stop := start(t, Config{List: list, DryRun: &script})
	wait.Until(t, "the table", func() bool { return strings.Contains(script.String(), "2001:db8::/64 timeout") })
	list.Set(map[string]time.Duration{"10.0.0.0/24": 2 * time.Hour, "2001:db8::/64": time.Hour})
	wait.Until(t, "the change", func() bool {
		return strings.Contains(script.String(), "delete element inet weir blocked4 { 203.0.113.7, 10.0.0.0/24 }")
	})
	stop()
	if !strings.HasSuffix(script.String(), "delete table inet weir\n") {
		t.Errorf("%s", script.String())
	}
	needKernel(t)
	if out, err := exec.Command("nft", "list", "table", "inet", "weir").CombinedOutput(); err == nil {
		t.Errorf("a dry run made a table: %s", out)
	}
	nft := exec.Command("nft", "-c", "-f", "-")
	nft.Stdin = strings.NewReader(script.String())
	if out, err := nft.CombinedOutput(); err != nil {
		t.Errorf("nft: %v\n%s\n%s", err, out, script.String())
	}
}
