package e2e

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// A site is a real nginx before a page, with the configuration of the compose file.
type site struct {
	t       testing.TB
	address string
	clients map[string]*http.Client
}

func newSite(t testing.TB, f *fleet) *site {
	t.Helper()
	s := &site{t: t, address: port.Reserve(t, "127.0.0.1"), clients: map[string]*http.Client{}}
	page := port.Reserve(t, "127.0.0.1")
	_, sitePort, _ := net.SplitHostPort(s.address)
	_, pagePort, _ := net.SplitHostPort(page)
	servers := strings.NewReplacer(
		"enforcer:7421", f.enforcer, "site:80", page, "listen 8080", "listen 127.0.0.1:"+sitePort, "listen 80;", "listen 127.0.0.1:"+pagePort+";",
		"/var/log/nginx/weir.log", f.path("access.log"),
	).Replace(deployed(t, "compose/nginx.conf") + deployed(t, "compose/site.conf"))
	f.write("nginx.conf", "pid "+f.path("nginx.pid")+";\nerror_log stderr warn;\ndaemon off;\nworker_processes 1;\nuser root;\nevents {}\nhttp {\n"+
		temporaryPaths(f)+servers+"}\n")
	startNginx(t, f, s.address)
	return s
}

// temporaryPaths are lines for http, so that nginx writes into the fleet's folder only.
func temporaryPaths(f *fleet) (lines string) {
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		lines += name + "_temp_path " + f.path(name) + ";\n"
	}
	return lines
}

// startNginx runs a real nginx with the fleet's nginx.conf until the test ends, and returns when it answers.
func startNginx(t testing.TB, f *fleet, address string) {
	t.Helper()
	command := exec.Command(real.Program(t, "nginx", "nginx"), "-e", "stderr", "-p", f.folder, "-c", f.path("nginx.conf"))
	command.Stderr = t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	})
	wait.Until(t, "nginx answers", func() bool {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		connection.Close()
		return true
	})
}

func deployed(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../deployments/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// get requests a page as a client with that address on the loopback, and returns the response's status.
func (s *site) get(client string) int {
	s.t.Helper()
	who := s.clients[client]
	if who == nil {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
		who = &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
		s.clients[client] = who
		s.t.Cleanup(who.CloseIdleConnections)
	}
	answer, err := who.Get("http://" + s.address + "/")
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}
