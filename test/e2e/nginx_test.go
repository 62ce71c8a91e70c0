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
	program := real.Program(t, "nginx", "nginx")
	s := &site{t: t, address: port.Reserve(t, "127.0.0.1"), clients: map[string]*http.Client{}}
	page := port.Reserve(t, "127.0.0.1")
	_, sitePort, _ := net.SplitHostPort(s.address)
	_, pagePort, _ := net.SplitHostPort(page)
	servers := strings.NewReplacer(
		"enforcer:7421", f.enforcer, "site:80", page, "listen 8080", "listen 127.0.0.1:"+sitePort, "listen 80;", "listen 127.0.0.1:"+pagePort+";",
		"/var/log/nginx/weir.log", f.path("access.log"),
	).Replace(deployed(t, "compose/nginx.conf") + deployed(t, "compose/site.conf"))
	f.write("nginx.conf", "pid "+f.path("nginx.pid")+";\nerror_log stderr warn;\ndaemon off;\nworker_processes 1;\nuser root;\nevents {}\nhttp {\n"+
		"client_body_temp_path "+f.path("body")+";\nproxy_temp_path "+f.path("proxy")+";\nfastcgi_temp_path "+f.path("fastcgi")+";\nuwsgi_temp_path "+f.path("uwsgi")+";\nscgi_temp_path "+f.path("scgi")+";\n"+
		servers+"}\n")
	command := exec.Command(program, "-e", "stderr", "-p", f.folder, "-c", f.path("nginx.conf"))
	command.Stderr = t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
	})
	wait.Until(t, "the site answered", func() bool {
		connection, err := net.Dial("tcp", s.address)
		if err != nil {
			return false
		}
		connection.Close()
		return true
	})
	return s
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
