package edges

import (
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/pkg/blocklist"
	"weir/pkg/request"
	"weir/pkg/rule"
	"weir/test/wait"
)

// About some requests of a blocked client the log has no decision: those that it gives up during the check, and those that
// the edge refuses by itself. The rule for networks of docs/rules.md leaves them out: otherwise the client could get its
// neighbours blocked.
func TestRequestsWithoutADecision(t *testing.T) {
	page, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("{name: per-network, .*count: served}").Find(page)
	if shown == nil {
		t.Fatal("docs/rules.md has no rule for networks")
	}
	for name, start := range map[string]func(*site) (string, func() string){
		"nginx":    (*site).nginxOfOurs,
		"Caddy":    func(s *site) (string, func() string) { return running(s.caddy()) },
		"Traefik":  func(s *site) (string, func() string) { return running(s.traefik()) },
		"Envoy":    func(s *site) (string, func() string) { return running(s.envoy()) },
		authorizes: func(s *site) (string, func() string) { return running(s.envoyGRPC(authorizes)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			address, log := start(s)
			awaitEdge(t, "http://"+address)
			s.order(blocklist.OrderBlock, blockedClient)
			const requests = 20
			for range requests {
				giveUp(t, blockedClient, address)
			}
			wait.Until(t, "the log has them", func() bool { return strings.Count(log(), "/given-up") >= requests })
			for _, request := range []string{"get / HTTP/1.1\nHost: h", "GET / HTTP/1.1\nHost: a b", "GET / HTTP/9", "CONNECT h:80 HTTP/1.1\nHost: h:80"} {
				raw(t, blockedClient, address, request)
			}
			raw(t, blockedClient, address, "GET /the-last HTTP/1.1\nHost: h")
			wait.Until(t, "the log has the last", func() bool { return strings.Contains(log(), "/the-last") })

			format := "json"
			if name == "nginx" {
				format = "weir"
			}
			if lines := servedIn(t, log(), format, string(shown)); len(lines) > 0 {
				t.Errorf("these count as served: %s", lines)
			}
		})
	}
}

// giveUp sends a request and resets the connection.
func giveUp(t *testing.T, from, address string) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := dialer.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(c, "GET /given-up HTTP/1.1\r\nHost: h\r\n\r\n")
	if err = errors.Join(err, c.(*net.TCPConn).SetLinger(0), c.Close()); err != nil {
		t.Fatal(err)
	}
}

// servedIn returns the lines of blocked clients that a rule counts.
func servedIn(t *testing.T, log, format, shown string) (lines []string) {
	t.Helper()
	set, _, err := rule.Parse("rules.yaml", []byte("rules:\n- "+shown))
	if err != nil {
		t.Fatal(err)
	}
	judge, parser := set.NewJudge(), must(request.NewParser(format, request.Options{}))
	for line := range strings.Lines(log) {
		var r request.Request
		if parser.Parse(line, &r) == nil && r.IP.String() == blockedClient && len(judge.Hits(&r)) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}
