package limited

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/test/wait"
)

// Strangers send the beginnings of large headers, or of many fields. These take no more than maxHeads, and a request with
// a large header is served meanwhile.
func TestUnfinishedHeadersShareABound(t *testing.T) {
	const weight = 900 << 10
	for _, test := range []struct {
		name      string
		header    string
		encrypted bool
	}{
		{"a large value", strings.Repeat("x", weight), false},
		{"many fields", strings.Repeat("\r\nA:", weight/(4+fieldWeight)), false},
		{"encrypted", strings.Repeat("x", weight/encryptedWeight), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var closed atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			l := Listen(server.Listener, Bounds{Connections: 100}, func(error) { closed.Add(1) })
			server.Listener = l
			Track(server.Config)
			if test.encrypted {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()

			var held []net.Conn
			for range maxHeads/weight + 5 {
				held = append(held, begin(t, server, test.header))
			}
			wait.Until(t, "the oldest ones are closed", func() bool { return closed.Load() > 0 })
			if weight, _ := l.unfinished(); weight > maxHeads {
				t.Errorf("headers weigh %d", weight)
			}
			_ = held[0].SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := held[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the oldest one stays: %v", err)
			}

			for range 3 { // of one connection
				request, _ := http.NewRequest(http.MethodGet, server.URL, http.NoBody)
				request.Header.Set("X", strings.Repeat("y", 60<<10))
				answer, err := server.Client().Do(request)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
			}
			for _, c := range held {
				c.Close()
			}
			wait.Until(t, "they are forgotten", func() bool { weight, connections := l.unfinished(); return weight == 0 && connections == 0 })
		})
	}
}

// begin sends a request whose header does not end.
func begin(t *testing.T, server *httptest.Server, header string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err == nil && server.TLS != nil {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	if err == nil {
		_, err = c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nX: " + header))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (l *Listener) unfinished() (weight, connections int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heads, l.large.Len()
}
