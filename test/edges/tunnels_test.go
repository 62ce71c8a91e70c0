package edges

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// opensTunnels replaces the application by one that accepts every upgrade, and CONNECT. It returns a function that reports
// the upgrades that it was asked for since the last call.
func (s *site) opensTunnels() (asked func() []string) {
	var lock sync.Mutex
	var upgrades []string
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol := r.Header.Get("Upgrade")
		if protocol == "" {
			return
		}

		lock.Lock()
		upgrades = append(upgrades, r.Header["Upgrade"]...)
		lock.Unlock()
		accepts := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", protocol)
		w.Header().Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(accepts[:]))
		w.WriteHeader(http.StatusSwitchingProtocols)
	}))
	s.t.Cleanup(app.Close)
	s.app = app.Listener.Addr().String()
	return func() (some []string) {
		lock.Lock()
		defer lock.Unlock()
		some, upgrades = upgrades, nil
		return some
	}
}

// status sends a request and returns the status of the first response.
func status(t *testing.T, address, request string) string {
	t.Helper()
	c := begin(t, goodClient, address, strings.ReplaceAll(request, "\n", "\r\n")+"\r\n\r\n")
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return strings.TrimPrefix(line, "HTTP/1.1 ")[:3]
}

// In a tunnel to the application, a client could send any number of requests that no one counts or refuses. Only
// WebSocket opens one.
func TestNoTunnelsToTheApplication(t *testing.T) {
	for name, start := range map[string]func(*site) (string, func() string){
		"HAProxy": (*site).haproxyOfOurs,
		"Caddy":   func(s *site) (string, func() string) { return running(s.caddy()) },
		"Traefik": func(s *site) (string, func() string) { return running(s.traefik()) },
		"Envoy": func(s *site) (string, func() string) {
			return running(s.envoy("stat_prefix: web", "stat_prefix: web\n                upgrade_configs: [{upgrade_type: websocket}]"))
		},
		"nginx": func(s *site) (string, func() string) {
			port := freePort(s.t)
			log := nginx(s.t, snippet(s.t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app,
				"# map $http_upgrade", "map $http_upgrade", "# map $weir_upgrade", "map $weir_upgrade",
				"# proxy_http_version", "proxy_http_version", "# proxy_set_header Upgrade", "proxy_set_header Upgrade", "# proxy_set_header Connection", "proxy_set_header Connection"))
			return loopback + ":" + port, contentOf(s.t, log)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			asked := s.opensTunnels()
			address, _ := start(s)
			awaitEdge(t, "http://"+address)
			upgrade := "GET / HTTP/1.1\nHost: h\nConnection: Upgrade%s\nUpgrade: %s\nHTTP2-Settings: AAMAAABk\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
			for _, listed := range []string{"", ", HTTP2-Settings"} {
				for _, protocol := range []string{"h2c", "H2C", "websocket, h2c", "h2c\nUpgrade: websocket", "websocket\nUpgrade: h2c"} {
					got := status(t, address, fmt.Sprintf(upgrade, listed, protocol))
					if to := strings.Join(asked(), ", "); strings.Contains(strings.ToLower(to), "h2c") {
						t.Errorf("an upgrade%s to %q: %s, and the application was asked for %q", listed, protocol, got, to)
					}
				}
			}
			if got := status(t, address, fmt.Sprintf(upgrade, "", "websocket")); got != "101" {
				t.Errorf("WebSocket: %s", got)
			}
			if got := status(t, address, "CONNECT h:80 HTTP/1.1\nHost: h:80"); got == "200" {
				t.Errorf("CONNECT: %s", got)
			}
		})
	}
}

// For rules get is GET. An application in Go takes it for another method, so no edge passes it on. Traefik cannot refuse it.
func TestNoMethodsInLowerCase(t *testing.T) {
	for name, start := range map[string]func(*site) (string, func() string){
		"HAProxy":  (*site).haproxyOfOurs,
		"Caddy":    func(s *site) (string, func() string) { return running(s.caddy()) },
		"Envoy":    func(s *site) (string, func() string) { return running(s.envoy()) },
		authorizes: func(s *site) (string, func() string) { return running(s.envoyGRPC(authorizes)) },
		limits:     func(s *site) (string, func() string) { return running(s.envoyGRPC(limits, withKey...)) },
		"nginx": func(s *site) (string, func() string) {
			port := freePort(s.t)
			log := nginx(s.t, snippet(s.t, "nginx.conf", "listen 80;", "listen "+loopback+":"+port+";", "127.0.0.1:7421", s.address, "127.0.0.1:8080", s.app))
			return loopback + ":" + port, contentOf(s.t, log)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			address, _ := start(s)
			awaitEdge(t, "http://"+address)
			for _, method := range []string{"get", "Get", "hEAD", "options"} {
				if got := raw(t, goodClient, address, method+" / HTTP/1.1"); strings.Contains(got, " 200 ") {
					t.Errorf("%s is answered %s", method, got)
				}
				if name == "nginx" || name == "Caddy" { // their files here have no HTTP/2 without TLS
					continue
				}
				got := sendHTTP2(t, goodClient, address, "", ":method", method, ":scheme", "http", ":authority", "h", ":path", "/")
				if got == "200" {
					t.Errorf("%s over HTTP/2 is answered %s", method, got)
				}
			}
		})
	}
}

// Caddy passes on the body of CONNECT over HTTP/2 without a length: an application in Go, for example, takes it for further
// requests. That is so as well where Caddy only logs them.
func TestNoTunnelByConnectCaddy(t *testing.T) {
	for name, start := range map[string]func(s *site, app string) string{
		"edge": func(s *site, app string) string {
			url, _ := s.caddy("protocols h1 h2\n", "protocols h1 h2c\n", "\treverse_proxy ", "\thandle {\n\t\treverse_proxy "+app+"\n\t}\n\treverse_proxy ")
			return url
		},
		"log": func(s *site, app string) string {
			port := freePort(s.t)
			log, err := net.Listen("tcp", loopback+":0")
			if err != nil {
				s.t.Fatal(err)
			}
			s.t.Cleanup(func() { log.Close() })
			text := snippet(s.t, "../shippers/Caddyfile", "127.0.0.1:5514", log.Addr().String(), ":80 {", "{\n\tadmin off\n\tauto_https off\n\tdefault_bind "+loopback+"\n\tservers {\n\t\tprotocols h1 h2c\n\t}\n}\n:"+port+" {",
				`respond "hello"`, "handle {\n\t\treverse_proxy "+app+"\n\t}")
			run(s.t, program(s.t, "caddy", "caddy"), "run", "--adapter", "caddyfile", "--config", write(s.t, filepath.Join(s.t.TempDir(), "Caddyfile"), text))
			return "http://" + loopback + ":" + port
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			served := make(chan string, 100)
			app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { served <- r.Method + " " + r.RequestURI }))
			t.Cleanup(app.Close)
			url := start(s, app.Listener.Addr().String())
			awaitEdge(t, url)
			address := strings.TrimPrefix(url, "http://")
			if status := sendHTTP2(t, goodClient, address, "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n", ":method", "CONNECT", ":authority", "shop.example"); status != "303" {
				t.Errorf("CONNECT is answered %s", status)
			}
			if status := raw(t, goodClient, address, "GET /last HTTP/1.1"); !strings.Contains(status, " 200 ") {
				t.Error(status)
			}
			for one := range served {
				switch one {
				case "GET /last":
					return
				case "CONNECT shop.example", "GET /hidden":
					t.Errorf("the application got %s", one)
				}
			}
		})
	}
}
