package jetstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// claiming is a server that answers the first request with a message of a few bytes, which claims others.
func claiming(t *testing.T, size string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, err := io.WriteString(conn, `INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":1048576,"jetstream":true}`+"\r\n")
				for in := bufio.NewReader(conn); err == nil; {
					var line string
					line, err = in.ReadString('\n')
					words := strings.Fields(line)
					switch {
					case strings.HasPrefix(line, "PING"):
						_, err = io.WriteString(conn, "PONG\r\n")
					case strings.HasPrefix(line, "SUB"):
						_, err = io.WriteString(conn, "MSG "+strings.ReplaceAll(words[1], "*", "x")+" "+words[2]+" "+size+"\r\nabc")
					}
				}
			}()
		}
	}()
	return "nats://" + l.Addr().String()
}

// A message that only claims its bytes does not end the process.
func TestAServerThatClaimsMuch(t *testing.T) {
	for _, size := range []string{"4611686018427387904", "99999999999", "99999999999999999999", "x"} {
		s := &stream{options: Options{URL: claiming(t, size), Stream: "access"}}
		if err := s.connect(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if _, err := s.js.Stream(ctx, "access"); err == nil {
			t.Errorf("%s: no error", size)
		}
		cancel()
		s.conn.Close()
	}
}

// Bytes in messages are not read as lines, however they are cut.
func TestMessagesInPieces(t *testing.T) {
	all := "INFO {}\r\nPING\r\nMSG a 1 27\r\nx\r\nMSG a 1 99999999999999\r\n\r\n\r\nhmsg a 1 b 3 5\r\nabcde\r\n+OK\r\n"
	for size := range len(all) {
		var c bounded
		for rest := all; rest != ""; {
			piece := rest[:min(size+1, len(rest))]
			if rest = rest[len(piece):]; !c.see([]byte(piece)) {
				t.Fatalf("pieces of %d bytes: refused at %q", size+1, piece)
			}
		}
		if c.body != 0 || len(c.line) != 0 {
			t.Errorf("pieces of %d bytes: %d bytes are missing", size+1, c.body)
		}
	}
}
