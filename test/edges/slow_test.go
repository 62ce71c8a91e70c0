package edges

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/pkg/backtest"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/locked"
	"weir/test/real"
	"weir/test/wait"
)

// A slowEdge is a log of an edge in front of an application.
type slowEdge struct {
	name   string
	start  func(s *site) (address string, log func() string)
	format string
}

// Requests are held for much longer than a log's times are inexact: some have whole seconds, and the clock of a busy
// edge is a little behind.
const heldFor, inexact = 5 * time.Second, 2 * time.Second

// unhurried makes Envoy wait for clients that read slowly. Otherwise it cuts an answer off after 15 s, which is too early
// on a busy machine.
var unhurried = []string{"route: {cluster: app}", "route: {cluster: app, timeout: 0s}"}

var slowEdges = []slowEdge{
	{"envoy", func(s *site) (string, func() string) { return running(s.envoy(unhurried...)) }, "auto"},
	{"envoy, with the names of json and the end", func(s *site) (string, func() string) {
		return running(s.envoy(append([]string{`start_time: "%START_TIME%"`, `time: "%EMIT_TIME%"`, `duration: "%DURATION%"`, `took: "%DURATION%"`,
			"downstream_remote_address: ", "ip: ", "authority: ", "host: ", "response_code: ", "status: "}, unhurried...)...))
	}, "json"},
	{"envoy, as istio", func(s *site) (string, func() string) { return running(s.envoyText(istioText, unhurried...)) }, "istio"},
	{"traefik", func(s *site) (string, func() string) { return running(s.traefik()) }, "auto"},
	{"haproxy", (*site).haproxyOfOurs, "weir"},
	{"haproxy, option httplog", func(s *site) (string, func() string) { return s.haproxyWith("option httplog") }, "haproxy"},
	{"haproxy, option httpslog", func(s *site) (string, func() string) { return s.haproxyWith("option httpslog") }, "haproxy"},
	{"caddy", func(s *site) (string, func() string) { return running(s.caddy()) }, "auto"},
	{"nginx", (*site).nginxOfOurs, "weir"},
	{"apache, combined with the end", func(s *site) (string, func() string) {
		return s.apache(`%h %l %u %{end}t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`)
	}, "combined"},
	{"apache, combined with the end in a form of its own", func(s *site) (string, func() string) {
		return s.apache(`%h %l %u [%{end:%d/%b/%Y:%T %z}t] "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`)
	}, "combined"},
	{"apache, a LogFormat with the duration", func(s *site) (string, func() string) { return s.apache(`%h %l %u %t "%r" %>s %b %D`) },
		`%h %l %u %t "%r" %>s %b %D`},
	{"apache, a LogFormat with milliseconds", func(s *site) (string, func() string) { return s.apache(`%h %{msec}t "%r" %>s %{ms}T`) },
		`%h %{msec}t "%r" %>s %{ms}T`},
}

// A client that holds its requests open for longer than a block lasts is blocked at the end of the request that breaks
// the limit, and not when that request began.
func TestSlowClientsAreBlockedAtTheEnd(t *testing.T) {
	real.Long(t)
	for _, edge := range slowEdges {
		t.Run(edge.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = w.Write(make([]byte, bigBytes))
			}))
			t.Cleanup(app.Close)
			s.app = app.Listener.Addr().String()
			address, log := edge.start(s)
			awaitEdge(t, "http://"+address+"/ready")

			held := make([][4]net.Conn, len(slowWays))
			for i, slow := range slowWays {
				for n := range held[i] {
					held[i][n] = begin(t, slow.client(i), address, slow.text)
				}
			}
			time.Sleep(heldFor) // the time is that of the edge: it cannot be moved

			broken := make([]time.Time, len(slowWays))
			for i, slow := range slowWays {
				for _, c := range held[i] {
					broken[i] = time.Now()
					slow.end(t, c)
				}
			}

			for i, slow := range slowWays {
				wait.Until(t, "all are in the log: "+slow.what, func() bool { return len(linesOf(log(), slow.client(i))) == len(held[i]) })
				seen, lines := time.Now(), linesOf(log(), "")
				if first := firstBlock(t, edge.format, lines, slow.client(i)); first.Before(broken[i].Add(-inexact)) || first.After(seen) {
					t.Errorf("%s: blocked at %s; the limit was broken between %s and %s, in\n%s", slow.what, first.UTC(), broken[i].UTC(), seen.UTC(), strings.Join(lines, ""))
				}
			}
		})
	}
}

// A slowWay is a way in which a client can hold a request open: what it sends at first, and how it ends.
type slowWay struct {
	what, text string
	end        func(t *testing.T, c net.Conn)
}

const (
	head = "GET /held HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
	body = "Content-Length: 1\r\n\r\n"
)

var slowWays = []slowWay{
	{"sends its headers slowly", head, func(t *testing.T, c net.Conn) { finish(t, c, "\r\n") }},
	{"sends its body slowly", head + body, func(t *testing.T, c net.Conn) { finish(t, c, "x") }},
	{"sends its body slowly and goes away", head + body, goAway},
	{"reads slowly", head + "\r\n", func(t *testing.T, c net.Conn) { finish(t, c, "") }},
	{"reads slowly and goes away", head + "\r\n", goAway},
}

// client is the address of the client that is slow in the way of this number.
func (slowWay) client(number int) string { return fmt.Sprintf("127.0.0.%d", 90+number) }

// firstBlock is when a limit of three requests an hour blocks a client.
func firstBlock(t *testing.T, format string, lines []string, client string) time.Time {
	t.Helper()
	set, err := rule.FromLimits([]string{"3/1h"}, "ip")
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, filepath.Join(t.TempDir(), "access.log"), strings.Join(lines, ""))
	report, err := backtest.Run(t.Context(), backtest.Config{Rules: set, Inputs: []backtest.Input{{Path: file}}, Format: format, Options: request.Options{Zone: time.Local}})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(report.Rules[0].Blocked, func(b backtest.Blocked) bool { return b.Key == client })
	if at < 0 || len(report.Unread) > 0 {
		t.Fatalf("not blocked, unread %v, in\n%s", report.Unread, strings.Join(lines, ""))
	}
	return time.UnixMilli(int64(report.Rules[0].Blocked[at].First))
}

// linesOf are the complete lines of a log for the path of this test, of one client or of all.
func linesOf(log, client string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, "/held") && strings.Contains(line, client) && strings.HasSuffix(line, "\n") {
			lines = append(lines, line)
		}
	}
	return lines
}

// bigBytes do not fit into the buffers between an edge and a client that does not read.
const bigBytes = 24 << 20

// finish sends the rest of a request and reads the answer.
func finish(t *testing.T, c net.Conn, rest string) {
	t.Helper()
	if _, err := c.Write([]byte(rest)); err != nil {
		t.Fatal(err)
	}
	// It has been slow for long enough: the rest may come quickly.
	if err := c.(*net.TCPConn).SetReadBuffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK || n != bigBytes {
		t.Fatalf("status %d, %d bytes, %v", answer.StatusCode, n, err)
	}
	c.Close()
}

// goAway resets the connection.
func goAway(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// begin connects with a small buffer for the answer.
func begin(t *testing.T, client, address, text string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}, Timeout: patience, Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	c, err := dialer.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	return c
}

func running(url string, said *locked.Buffer) (string, func() string) {
	return strings.TrimPrefix(url, "http://"), said.String
}

func contentOf(t *testing.T, file string) func() string {
	return func() string {
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
}

// envoyText runs Envoy with a log of text.
func (s *site) envoyText(format string, replace ...string) (string, *locked.Buffer) {
	_, block, _ := strings.Cut(snippet(s.t, "envoy.yaml"), "log_format:")
	block, _, _ = strings.Cut(block, "http_filters:")
	return s.envoy(append([]string{"log_format:" + strings.TrimRight(block, " "),
		"log_format: {text_format_source: {inline_string: " + strconv.Quote(format+"\n") + "}}\n"}, replace...)...)
}

func (s *site) haproxyOfOurs() (string, func() string) {
	folder := s.t.TempDir()
	url, said, _ := s.haproxy(write(s.t, filepath.Join(folder, "weir.map"), ""), write(s.t, filepath.Join(folder, "weir-users.map"), ""))
	return running(url, said)
}

func (s *site) nginxOfOurs() (string, func() string) {
	port := freePort(s.t)
	log := nginx(s.t, snippet(s.t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app))
	return loopback + ":" + port, contentOf(s.t, log)
}

// haproxyWith runs HAProxy with one of its own formats.
func (s *site) haproxyWith(option string) (string, func() string) {
	address := loopback + ":" + freePort(s.t)
	said := run(s.t, program(s.t, "haproxy", "haproxy"), "-db", "-f", write(s.t, filepath.Join(s.t.TempDir(), "haproxy.cfg"), `
global
    log stdout len 65000 format raw local0
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend web
    bind `+address+`
    log global
    `+option+`
    default_backend app
backend app
    server app `+s.app+`
`))
	return address, said.String
}

// apache runs Apache with a LogFormat and further lines, and a file of bigBytes instead of the application.
func (s *site) apache(format string, more ...string) (string, func() string) {
	t, folder, address := s.t, s.t.TempDir(), loopback+":"+freePort(s.t)
	path := program(t, "apache2", "apache2-bin")
	write(t, filepath.Join(folder, "held"), strings.Repeat("x", bigBytes))
	write(t, filepath.Join(folder, "ready"), "")
	log := filepath.Join(folder, "access.log")
	config := fmt.Sprintf(`
ServerName h
ServerRoot %[1]s
PidFile %[1]s/pid
ErrorLog %[1]s/error.log
Listen %[2]s
DocumentRoot %[1]s
%[3]s
LogFormat %[4]s tried
CustomLog %[5]s tried
%[6]s
`, folder, address, apacheModules(path), strconv.Quote(format), log, strings.Join(more, "\n"))
	run(t, path, "-X", "-f", write(t, filepath.Join(folder, "apache.conf"), config))
	return address, contentOf(t, log)
}

// apacheModules loads what Debian does not compile in.
func apacheModules(path string) string {
	folder := filepath.Join(filepath.Dir(filepath.Dir(path)), "lib/apache2/modules")
	return "LoadModule mpm_event_module " + folder + "/mod_mpm_event.so\nLoadModule authz_core_module " + folder + "/mod_authz_core.so\n" +
		"LoadModule remoteip_module " + folder + "/mod_remoteip.so\n"
}
