package enforcer

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// BenchmarkTakeOverHTTP compares attempts over kept connections with the same requests to an empty handler. It alternates
// between them, so that other load on the machine affects both. It reports the shares of the empty handler's rate. All
// attempts are admitted: they are of 5,000 clients in turn.
func BenchmarkTakeOverHTTP(b *testing.B) {
	r := start(b, thousands(b, 100), func(c *Config) {
		c.Logger = quiet
		c.Ruling.Rules = parsed(b, "rules: [{name: quota, key: ip, limits: [100/s, 4000/min], inline: true}]")
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	empty := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = empty.Serve(listener) }()
	defer empty.Close()

	const clients = 5000
	var checks, takes [clients]string
	for i := range clients {
		ip := fmt.Sprintf("203.0.%d.%d", i/250, i%250)
		body := fmt.Sprintf(`{"rule": "quota", "fields": {"ip": %q}}`, ip)
		checks[i] = "GET /v1/check/nginx HTTP/1.1\r\nHost: shop.example\r\nX-Original-URI: /a?b\r\nX-Original-Method: GET\r\nX-Forwarded-For: " + ip + "\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: */*\r\n\r\n"
		takes[i] = fmt.Sprintf("POST /v1/take HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}

	turns := []struct {
		name string
		ask  func(times int)
		took time.Duration
	}{
		{name: "check", ask: askedInTurn(b, r.Address(), checks[:])},
		{name: "empty check", ask: askedInTurn(b, listener.Addr().String(), checks[:])},
		{name: "take", ask: askedInTurn(b, r.Address(), takes[:])},
		{name: "empty take", ask: askedInTurn(b, listener.Addr().String(), takes[:])},
	}
	const turn = 200
	for b.Loop() {
		for i := range turns {
			began := time.Now()
			turns[i].ask(turn)
			turns[i].took += time.Since(began)
		}
	}
	b.ReportMetric(float64(turns[1].took)/float64(turns[0].took), "check-of-empty")
	b.ReportMetric(float64(turns[3].took)/float64(turns[2].took), "take-of-empty")
	b.ReportMetric(float64(b.N*turn)/turns[0].took.Seconds(), "checks/s")
	b.ReportMetric(float64(b.N*turn)/turns[2].took.Seconds(), "takes/s")
}

// askedInTurn returns a function that sends the texts over one connection, one after the other, and reads the answers.
func askedInTurn(b *testing.B, address string, texts []string) func(times int) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	answers, next := bufio.NewReader(conn), 0
	room := make([]byte, 4096)
	return func(times int) {
		for range times {
			if _, err := io.WriteString(conn, texts[next%len(texts)]); err != nil {
				b.Fatal(err)
			}
			next++
			n, err := answers.Read(room)
			if err != nil || string(room[:min(15, n)]) != "HTTP/1.1 200 OK" {
				b.Fatalf("%v: %s", err, room[:n])
			}
		}
	}
}
