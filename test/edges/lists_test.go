package edges

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/test/real"
)

// An unchanged list is not fetched again, and the command runs only for a changed one, until it has succeeded.
func TestFetchingRunsItsCommandForANewList(t *testing.T) {
	program(t, "curl", "curl")
	s := newSite(t)
	folder := t.TempDir()
	file, ran := filepath.Join(folder, "list"), filepath.Join(folder, "ran")
	count := func() int {
		data, _ := os.ReadFile(ran)
		return len(data)
	}
	works := []string{"sh", "-c", "printf x >>" + ran}
	fails := []string{"sh", "-c", "printf x >>" + ran + "; exit 1"}
	s.order(blocklist.OrderBlock, blockedClient)
	for i, step := range []struct {
		command []string
		ok      bool
		ran     int
	}{{fails, false, 1}, {works, true, 2}, {works, true, 2}} {
		if err := s.fetch("txt", file, step.command...); (err == nil) != step.ok || count() != step.ran {
			t.Errorf("step %d: %v, the command ran %d times", i, err, count())
		}
	}
	s.order(blocklist.OrderBlock, "127.0.0.67")
	if err := s.fetch("txt", file, works...); err != nil || count() != 3 {
		t.Errorf("another list: %v, the command ran %d times", err, count())
	}
	if data, _ := os.ReadFile(file); string(data) != blockedClient+"\n127.0.0.67\n" {
		t.Errorf("the list is %q", data)
	}
	if left, _ := filepath.Glob(file + ".*"); len(left) != 1 {
		t.Errorf("it leaves %s", left)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := s.fetch("txt", file, works...); err != nil || count() != 4 {
		t.Errorf("a deleted list: %v, the command ran %d times", err, count())
	}
	if data, _ := os.ReadFile(file); len(data) == 0 {
		t.Error("a deleted list is not fetched again")
	}
}

// nginx reads lists for geo and map, with any names of users, and distinguishes upper and lower case.
func TestNginxLists(t *testing.T) {
	program(t, "curl", "curl")
	s := newSite(t)
	folder, port := t.TempDir(), freePort(t)
	geo, users := filepath.Join(folder, "weir.geo"), filepath.Join(folder, "weir-users.map")
	const odd = `al"ice;$host{}\x41~ü b`
	s.order(blocklist.OrderBlock, "127.0.0.64/29")
	s.order(blocklist.OrderBlock, "2001:db8::/32")
	for _, user := range []string{"Bob", "4711", "default", odd} {
		s.order(blocklist.OrderBlock, "user:"+user)
	}
	for list, file := range map[string]string{"nginx": geo, "nginx?scope=user": users} {
		if err := s.fetch(list, file, "true"); err != nil {
			t.Fatal(err)
		}
	}
	lookups := snippet(t, "nginx-geo.conf", "/etc/nginx/weir.geo", geo, "/etc/nginx/weir-users.map", users, "$remote_user", "$http_x_user")
	lookups = strings.NewReplacer("# map", "map", "#     ", "    ", "# }", "}").Replace(lookups)
	nginx(t, "worker_processes auto;\npid /run/nginx.pid;\nerror_log /var/log/nginx/error.log;\nevents {}\nhttp {\naccess_log /var/log/nginx/access.log;\n"+lookups+
		"\nserver { listen "+loopback+":"+port+"; location / { if ($weir_rule) { return 429; } if ($weir_user_rule) { return 429; } proxy_pass http://"+s.app+"; } }\n}\n")
	url := "http://" + loopback + ":" + port
	awaitEdge(t, url)
	if refused := ask(t, blockedClient, url); refused.status != http.StatusTooManyRequests {
		t.Errorf("who is blocked: %+v", refused)
	}
	for user, want := range map[string]int{"Bob": 429, "bob": 200, "Bobby": 200, "4711": 429, "47110": 200, "default": 429, "Default": 200, odd: 429, "x": 200} {
		if got := ask(t, goodClient, url, "X-User", user); got.status != want {
			t.Errorf("the user %q: %+v", user, got)
		}
	}
}

// The kernel loads the list for nft, again and again, into the sets of our ruleset, in its own namespace.
func TestNft(t *testing.T) {
	program(t, "curl", "curl")
	nft := program(t, "nft", "nftables")
	inNamespace(t)
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "weir.nft")
	s.order(blocklist.OrderBlock, "127.0.0.64/29")
	s.order(blocklist.OrderAllow, "127.0.0.67")
	s.order(blocklist.OrderBlock, "2001:db8::/32")
	s.orderFor(blocklist.OrderBlock, "127.0.0.80", 10*365*24*time.Hour) // nft reads at most eight digits
	if err := s.fetch("nft", file, "true"); err != nil {
		t.Fatal(err)
	}
	script := "set -e; " + nft + " -f " + snippets + "nftables.nft; for i in 1 2 3; do " + nft + " -f " + file + "; done; " + nft + " list ruleset"
	out, err := exec.Command("unshare", "-n", "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"127.0.0.64-127.0.0.65 timeout", "127.0.0.66 timeout", "127.0.0.68/30 timeout", "127.0.0.80 timeout 36", "2001:db8::/32 timeout", "iif != \"lo\" ip saddr @blocked4 drop", "iif != \"lo\" meta l4proto != ipv6-icmp ip6 saddr @blocked6 drop"} {
		if !strings.Contains(strings.ReplaceAll(string(out), "127.0.0.64/31", "127.0.0.64-127.0.0.65"), want) {
			t.Errorf("%q is not in the ruleset:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "127.0.0.67") {
		t.Errorf("who is allowed is in the ruleset:\n%s", out)
	}
}

// A restart of the firewall brings the table and the fetched list back, although the list has not changed since.
func TestNftAfterARestartOfTheFirewall(t *testing.T) {
	program(t, "curl", "curl")
	nft := program(t, "nft", "nftables")
	inNamespace(t)
	s := newSite(t)
	folder := t.TempDir()
	s.order(blocklist.OrderBlock, "127.0.0.80")
	table := snippet(t, "nftables.nft")
	write(t, filepath.Join(folder, "weir-table.nft"), table)
	for range 2 { // the second leaves the list as it is
		if err := s.fetch("nft", filepath.Join(folder, "weir.nft"), "true"); err != nil {
			t.Fatal(err)
		}
	}

	include := regexp.MustCompile(`(?m)^#   (include .*)$`).FindStringSubmatch(table)
	if include == nil {
		t.Fatal("the file does not name the line for nftables.conf")
	}
	conf := write(t, filepath.Join(t.TempDir(), "nftables.conf"), "flush ruleset\n"+strings.ReplaceAll(include[1], "/etc/nftables.d", folder)+"\n")
	restart := nft + " -f " + conf + "; "
	out, err := exec.Command("unshare", "-n", "sh", "-c", "set -e; "+restart+restart+nft+" list ruleset").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"127.0.0.80 timeout", "ip saddr @blocked4 drop"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in the ruleset:\n%s", want, out)
		}
	}
}

// inNamespace skips where no network namespace can be made.
func inNamespace(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("unshare", "-n", "true").CombinedOutput(); err != nil {
		real.Missing(t, "a network namespace of one's own needs root: "+string(out))
	}
}
