package enforcer

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"weir/pkg/blocklist"
)

// thousands returns a list of n addresses.
func thousands(tb testing.TB, n int) *blocklist.Set {
	entries := make([]*blocklist.Entry, n*1000)
	for i := range entries {
		entries[i] = ofIP(fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255))
	}
	return list(tb, entries...)
}

// BenchmarkCheck measures a check without the network: an enforcer's work for a client that passes and for one that is
// refused.
func BenchmarkCheck(b *testing.B) {
	e, err := Open(Config{Set: thousands(b, 100), Ruling: usualRuling(b), Refusal: 429, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	for name, ip := range map[string]string{"passes": "203.0.113.8", "refused": "198.51.100.1"} {
		if err := e.config.Set.Order(&blocklist.Order{ID: "1", Kind: blocklist.OrderBlock, Scope: "ip", Value: "198.51.100.0/24", From: 1, Until: blocklist.Never, By: "b", Why: "w"}, 1); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			r := asked(b, "GET /v1/check/nginx HTTP/1.1\nHost: shop.example\nX-Original-URI: /a?b\nX-Original-Method: GET\nX-Forwarded-For: "+ip)
			w := &unread{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				e.ServeHTTP(w, r)
			}
		})
	}
}

// unread is a response writer that drops everything.
type unread struct{ header http.Header }

func (n *unread) Header() http.Header         { return n.header }
func (n *unread) WriteHeader(int)             {}
func (n *unread) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkOverHTTP compares checks over kept connections with the same requests to an empty handler. It alternates
// between them, so that other load on the machine affects both. It reports the share of the empty handler's rate.
func BenchmarkOverHTTP(b *testing.B) {
	r := start(b, thousands(b, 100), func(c *Config) { c.Logger = quiet })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	empty := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = empty.Serve(listener) }()
	defer empty.Close()
	const text = "GET /v1/check/nginx HTTP/1.1\r\nHost: shop.example\r\nX-Original-URI: /a?b\r\nX-Original-Method: GET\r\nX-Forwarded-For: 203.0.113.8\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: */*\r\n\r\n"
	check, none := dialed(b, r.Address(), text), dialed(b, listener.Addr().String(), text)
	var took [2]time.Duration
	const turn = 200
	for b.Loop() {
		for i, ask := range []func(int){check, none} {
			began := time.Now()
			ask(turn)
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "of-empty")
	b.ReportMetric(float64(b.N*turn)/took[0].Seconds(), "checks/s")
}

// dialed returns a function that sends a request over one connection again and again.
func dialed(b *testing.B, address, text string) func(times int) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	room := make([]byte, 4096)
	return func(times int) {
		for range times {
			if _, err := io.WriteString(conn, text); err != nil {
				b.Fatal(err)
			}
			n, err := conn.Read(room)
			if err != nil || string(room[:15]) != "HTTP/1.1 200 OK" || string(room[n-4:n]) != "\r\n\r\n" {
				b.Fatalf("%v: %s", err, room[:n])
			}
		}
	}
}
