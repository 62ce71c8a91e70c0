package edges

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/pkg/blocklist"
	"weir/test/wait"
)

// CrowdSec's custom bouncer calls its program for new and for ended decisions.
func TestCustomBouncer(t *testing.T) {
	t.Parallel()
	path := program(t, "crowdsec-custom-bouncer", "crowdsec-custom-bouncer")
	s := newSite(t)
	folder := t.TempDir()
	called := filepath.Join(folder, "called")
	script := write(t, filepath.Join(folder, "on-decision"), "#!/bin/sh\nprintf '%s\\n' \"$1 $2 $4 $5\" >>"+called+"\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	s.order(blocklist.OrderBlock, blockedClient)
	s.order(blocklist.OrderBlock, "user:alice") // no bouncer asks for it
	run(t, path, "-c", write(t, filepath.Join(folder, "bouncer.yaml"), s.bouncer("crowdsec-custom-bouncer.yaml", folder, "/usr/local/bin/on-decision", script,
		"cache_retention_duration: 10s", "cache_retention_duration: 1ms")))
	calls := func() string {
		text, _ := os.ReadFile(called)
		return string(text)
	}
	wait.Until(t, "it is called for what is in force", func() bool { return strings.Contains(calls(), "add "+blockedClient+" manual") })
	s.order(blocklist.OrderBlock, "198.51.100.0/24")
	wait.Until(t, "it is called for what is new", func() bool { return strings.Contains(calls(), "add 198.51.100.0/24 manual") })
	s.lift(blockedClient)
	wait.Until(t, "it is called for what was lifted", func() bool { return strings.Contains(calls(), "del "+blockedClient+" manual") })
	s.stop()
	s.order(blocklist.OrderBlock, blockedClient)
	s.start()
	wait.Until(t, "it goes on with an enforcer that was started anew", func() bool { return strings.Count(calls(), "add "+blockedClient+" manual") == 2 })
	if strings.Contains(calls(), "alice") {
		t.Errorf("it was called for a user:\n%s", calls())
	}
	for line := range strings.Lines(calls()) {
		var d struct{ Scope, Type, Origin, Scenario string }
		_, text, _ := strings.Cut(line, " manual ")
		if err := json.Unmarshal([]byte(text), &d); err != nil || d.Type != "ban" || d.Scenario != "manual" || d.Scope != "Ip" && d.Scope != "Range" {
			t.Errorf("%v: %+v of %s", err, d, line)
		}
	}
}

// bouncer is a bouncer's file, for tests: it polls more often and stays in the foreground.
func (s *site) bouncer(name, folder string, replace ...string) string {
	s.t.Helper()
	text := snippet(s.t, name, append([]string{"${API_KEY}", key, "127.0.0.1:7421", s.address, "update_frequency: 10s", "update_frequency: 1s",
		"daemonize: true", "daemonize: false", "/var/run/", folder, "/var/log/", folder, "log_mode: file", "log_mode: stdout",
		"enabled: true\n  listen_addr", "enabled: false\n  listen_addr"}, replace...)...)
	return text
}

// The sets of CrowdSec's firewall bouncer have the blocked clients, and the addresses of a prefix, and lose the
// unblocked ones; it keeps them without an enforcer.
func TestFirewallBouncer(t *testing.T) {
	path, nft := program(t, "crowdsec-firewall-bouncer", "crowdsec-firewall-bouncer"), program(t, "nft", "nftables")
	s := newSite(t)
	space := s.newNamespace()
	folder := t.TempDir()
	s.order(blocklist.OrderBlock, "203.0.113.7")
	s.order(blocklist.OrderBlock, "2001:db8::7")
	text := replaced(t, s.bouncer("crowdsec-firewall-bouncer.yaml", folder), s.address, "127.0.0.1:7421", key, firewallKey)
	run(t, space.ip, space.within(path, "-c", write(t, filepath.Join(folder, "bouncer.yaml"), text))...)
	rules := func() string {
		out, _ := exec.Command(space.ip, space.within(nft, "list", "ruleset")...).CombinedOutput()
		return string(out)
	}
	has := func(address string) func() bool {
		return func() bool { return strings.Contains(rules(), address+" timeout") }
	}
	wait.Until(t, "an address is in the set", has("203.0.113.7"))
	wait.Until(t, "an address of IPv6 is in the set", has("2001:db8::7"))
	s.order(blocklist.OrderBlock, "203.0.113.8")
	wait.Until(t, "a new address is in the set", has("203.0.113.8"))
	s.order(blocklist.OrderBlock, "198.51.100.0/30")
	for _, address := range []string{"198.51.100.0", "198.51.100.1", "198.51.100.2", "198.51.100.3"} {
		wait.Until(t, address+" of a prefix is in the set", has(address))
	}
	s.lift("203.0.113.7")
	wait.Until(t, "who was lifted is not", func() bool { return !has("203.0.113.7")() })
	s.stop()
	if !has("203.0.113.8")() {
		t.Errorf("without an enforcer the sets are empty:\n%s", rules())
	}
}
