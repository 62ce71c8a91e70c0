package redis

import (
	"bufio"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
)

// answering is a server that reads commands, and answers each with the same reply.
func answering(t *testing.T, reply string) (url string) {
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
				for in := bufio.NewReader(conn); ; {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					if strings.HasPrefix(line, "*") {
						if _, err := io.WriteString(conn, reply); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	return "redis://" + l.Addr().String()
}

// Numbers of elements and bytes that a server only claims cost little memory, and do not end the process.
func TestRepliesThatClaimMuch(t *testing.T) {
	for _, reply := range []string{
		"*2147483647\r\n", "%1073741823\r\n", "~2147483647\r\n", "$2147483647\r\n", "*99999999999999999999\r\n",
		strings.Repeat("*1000000\r\n", 100), "+" + strings.Repeat("x", 1<<20), strings.Repeat("*1\r\n", 4_100_000),
		strings.Repeat("|0\r\n", 2_000_000), "*1\r\n" + strings.Repeat("|1\r\n+a\r\n:1\r\n", 1_000_000),
	} {
		client, err := Dial(Options{URL: answering(t, reply)})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := client.Do(t.Context(), "GET", "x").Err(); !errors.Is(err, ErrReply) {
			t.Errorf("%.20q: %v", reply, err)
		}
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc + after.StackInuse - min(before.StackInuse, after.StackInuse)) >> 20; took > 200 {
			t.Errorf("%.20q: %d MiB were asked for", reply, took)
		}
		client.Close()
	}
}

// Replies of all kinds are seen as they are, however they are cut.
func TestRepliesInPieces(t *testing.T) {
	reply := "*3\r\n$5\r\n*9\r\n1\r\n$-1\r\n%1\r\n+OK\r\n:7\r\n*-1\r\n_\r\n$0\r\n\r\n" + // the third value is the map
		"*2\r\n*1\r\n*0\r\n|1\r\n+a\r\n:1\r\n*1\r\n|1\r\n+a\r\n:1\r\n:7\r\n"
	for size := range len(reply) {
		var r replies
		for rest := reply; rest != ""; {
			piece := rest[:min(size+1, len(rest))]
			if rest = rest[len(piece):]; !r.see([]byte(piece)) {
				t.Fatalf("pieces of %d bytes: refused at %q", size+1, piece)
			}
		}
		if r.elements != 13 || r.text != 0 || len(r.line) != 0 || len(r.open) != 0 {
			t.Errorf("pieces of %d bytes: %d elements, %d open", size+1, r.elements, len(r.open))
		}
	}
}
