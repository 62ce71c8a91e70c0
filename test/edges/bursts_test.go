package edges

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// between puts a proxy between the enforcer and edges that are started later. It calls waits before it passes a check on.
func (s *site) between(waits func()) {
	t, enforcer := s.t, s.address
	t.Helper()
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Header = "http", enforcer, r.In.Header.Clone()
	}}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		waits()
		proxy.ServeHTTP(w, r)
	})}}
	server.Start()
	t.Cleanup(server.Close)
	s.address = l.Addr().String()
}

// A blocked client does not pass because the enforcer takes a moment, as it does when a client sends many requests at
// once.
func TestEdgesWaitForABusyEnforcer(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*site) string{
		"nginx":   func(s *site) string { address, _ := s.nginxOfOurs(); return "http://" + address },
		"caddy":   func(s *site) string { url, _ := s.caddy(); return url },
		"traefik": func(s *site) string { url, _ := s.traefik(); return url },
		"envoy":   func(s *site) string { url, _ := s.envoy(); return url },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.between(func() { time.Sleep(200 * time.Millisecond) })
			url := start(s)
			awaitEdge(t, url)
			s.order(blocklist.OrderBlock, blockedClient)
			wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
		})
	}
}

// Envoy asks about each of many requests that a blocked client sends at once: further checks wait, and do not fail.
func TestEnvoyAsksAboutManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	const connections, each = 30, 100
	s := newSite(t)
	held, begun := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	s.between(func() {
		select {
		case <-begun:
			<-held
		default:
		}
	})
	// Here a check may take as long as it likes, however busy the machine is.
	url, _ := s.envoy("timeout: 0.5s", "timeout: 300s", "connect_timeout: 0.25s", "connect_timeout: 300s", "route: {cluster: app}", "route: {cluster: app, timeout: 0s}")
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })

	close(begun)
	time.AfterFunc(3*time.Second, release) // a check that fails at once has failed by then
	refusesAll(t, url, connections, each)
}

// The same over gRPC, with more requests than the enforcer answers at once.
func TestEnvoyOverGRPCAsksAboutManyRequestsAtOnce(t *testing.T) {
	s := newSite(t)
	url, _ := s.envoyGRPC(authorizes, "timeout: 0.5s", "timeout: 300s", "connect_timeout: 0.25s", "connect_timeout: 300s", "route: {cluster: app}", "route: {cluster: app, timeout: 0s}")
	awaitEdge(t, url)
	s.order(blocklist.OrderBlock, blockedClient)
	wants(t, "who is blocked", http.StatusTooManyRequests, func() answer { return ask(t, blockedClient, url) })
	refusesAll(t, url, 60, 100)
}

// refusesAll sends many requests of a blocked client at once.
func refusesAll(t *testing.T, url string, connections, each int) {
	t.Helper()
	answers := make(chan int, connections*each)
	for range connections {
		client := http2Client(t, blockedClient)
		for range each {
			go func() {
				resp, err := client.Get(url)
				if err != nil {
					answers <- 0
					return
				}
				_ = resp.Body.Close()
				answers <- resp.StatusCode
			}()
		}
	}
	got := map[int]int{}
	for range connections * each {
		got[<-answers]++
	}
	if got[http.StatusTooManyRequests] != connections*each {
		t.Errorf("the answers to a blocked client, by status: %v", got)
	}
}

// http2Client speaks HTTP/2 without TLS, from an address.
func http2Client(t *testing.T, from string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
