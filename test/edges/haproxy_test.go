package edges

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/test/locked"
	"weir/test/wait"
)

// fetch runs the script of deployments/edge, with a command for a changed list.
func (s *site) fetch(list, file string, command ...string) error {
	s.t.Helper()
	c := exec.Command("sh", append([]string{snippets + "fetch-list.sh", "http://" + s.address + "/v1/blocklist." + list, file}, command...)...)
	c.Env = append(os.Environ(), "WEIR_KEY_FILE="+write(s.t, filepath.Join(s.t.TempDir(), "key"), key+"\n"))
	out, err := c.CombinedOutput()
	s.t.Logf("fetching %s: %v %s", list, err, out)
	return err
}

// haproxy runs with the file of deployments/edge and returns its URL, its output, and a command that makes it reload.
func (s *site) haproxy(addresses, users string, replace ...string) (url string, said *locked.Buffer, reload []string) {
	t := s.t
	t.Helper()
	port, folder := freePort(t), t.TempDir()
	pid, master := filepath.Join(folder, "pid"), filepath.Join(folder, "master.sock")
	text := snippet(t, "haproxy.cfg", append(replace, "bind :80", "bind "+loopback+":"+port, "127.0.0.1:8080", s.app, "/run/haproxy/admin.sock", filepath.Join(folder, "admin.sock"),
		"/etc/haproxy/weir.map", addresses, "/etc/haproxy/weir-users.map", users, "# http-request set-var", "http-request set-var", "/dev/log len 65000 local0", "stdout len 65000 format raw local0")...)
	said = run(t, program(t, "haproxy", "haproxy"), "-Ws", "-S", master, "-p", pid, "-f", write(t, filepath.Join(folder, "haproxy.cfg"), text))
	wait.Until(t, "its first process takes commands, and signals with them", func() bool { return answers(master, "show version\n") })
	return "http://" + loopback + ":" + port, said, []string{"sh", "-c", "kill -USR2 $(cat " + pid + ")"}
}

// answers reports whether a command on a unix socket gets an answer.
func answers(socket, command string) bool {
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(connection, command); err != nil {
		return false
	}
	n, _ := connection.Read(make([]byte, 100))
	return n > 0
}

// HAProxy looks clients up in the lists that the script fetches, addresses and users, and goes on with them when the
// enforcer is gone. For a moment after a reload, the old process may still answer.
func TestHAProxy(t *testing.T) {
	program(t, "curl", "curl")
	s := newSite(t)
	folder := t.TempDir()
	addresses, users := write(t, filepath.Join(folder, "weir.map"), ""), write(t, filepath.Join(folder, "weir-users.map"), "")
	url, said, reload := s.haproxy(addresses, users)
	awaitEdge(t, url)

	const odd = "al\"ice #;\\ü b\t"
	s.order(blocklist.OrderBlock, "127.0.0.64/29")
	s.order(blocklist.OrderAllow, "127.0.0.67")
	s.judged("per-ip", "::/64", map[string]string{"ip": "::/64"}) // of ::1, in whose network HAProxy looks clients of IPv4 up
	s.order(blocklist.OrderBlock, "user:Bob")
	s.order(blocklist.OrderBlock, "user:"+strings.TrimSpace(odd))
	if err := s.fetch("haproxy?scope=user", users, "true"); err != nil {
		t.Fatal(err)
	}
	if err := s.fetch("haproxy", addresses, reload...); err != nil {
		t.Fatal(err)
	}
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
	wait.Until(t, "the refusal is in the log", func() bool { return strings.Contains(said.String(), `"refused manual"`) })
	for user, want := range map[string]int{"Bob": 429, strings.TrimSpace(odd): 429, "bob": 200, "Bobby": 200, "": 200, "al": 200} {
		wants(t, fmt.Sprintf("the user %q", user), want, func() answer { return ask(t, goodClient, url, "X-User", user) })
	}
	for from, want := range map[string]int{goodClient: 200, "127.0.0.67": 200, "127.0.0.71": 429, "127.0.0.72": 200} {
		wants(t, "from "+from, want, func() answer { return ask(t, from, url) })
	}
	s.stop()
	before, _ := os.ReadFile(addresses)
	if err := s.fetch("haproxy", addresses, reload...); err == nil {
		t.Error("fetched from nobody")
	}
	if after, _ := os.ReadFile(addresses); string(after) != string(before) || len(after) == 0 {
		t.Errorf("the map is %q, it was %q", after, before)
	}
	wants(t, "who is blocked, without an enforcer", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
	wants(t, "who is not, without an enforcer", http.StatusOK, func() answer { return ask(t, goodClient, url) })
}
