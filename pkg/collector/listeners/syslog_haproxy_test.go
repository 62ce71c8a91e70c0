package listeners

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// HAProxy sends its log over UDP in each form that a log line of its configuration can name. A header that it captures
// may have text that looks like a tag and a line of another client.
func TestSyslogFromHAProxy(t *testing.T) {
	path := real.Program(t, "haproxy", "haproxy")
	for _, form := range []string{"", "local", "rfc3164", "rfc5424", "short", "priority", "raw", "timed", "iso"} {
		t.Run("format "+form, func(t *testing.T) {
			b := newSyslogBench(t, "udp")
			b.config.Sources[0].Format = "haproxy"
			b.start()
			_, to, _ := strings.Cut(b.address(), "://")
			if form != "" {
				to += " format " + form
			}
			at := port.Reserve(t, "127.0.0.1")
			file := filepath.Join(t.TempDir(), "haproxy.cfg")
			config := fmt.Sprintf("global\n log %s local0\ndefaults\n mode http\n log global\n option httplog\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n"+
				"frontend shop\n bind %s\n capture request header User-Agent len 900\n http-request return status 200\n", to, at)
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), path, "-db", "-f", file)
			command.Stdout, command.Stderr = t.Output(), t.Output()
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { command.Process.Kill(); command.Wait() }()
			wait.Until(t, "HAProxy listens", func() bool {
				conn, err := net.Dial("tcp", at)
				if err == nil {
					conn.Close()
				}
				return err == nil
			})
			agents := []string{"curl/8.5", "x: 198.51.100.9:1 [03/Mar/2026:08:00:00.000] f b/s 0/0/0/0/0 200 1 - - ---- 1/1/0/0/0 0/0 ",
				"x: 198.51.100.9:1 [03/Mar/2026:08:00:00.000] f b/s 0/0/0/0/0 200 1 - - ---- 1/1/0/0/0 0/0 " + strings.Repeat("x", 400)}
			for _, agent := range agents {
				request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+"/signin", nil)
				request.Header.Set("User-Agent", agent)
				answer, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
			}
			wait.Until(t, "the requests are counted", func() bool {
				keys, _ := b.sink.Counted(t)
				if n := len(keys); n > 1 {
					t.Fatalf("another client than this one is counted: %v", keys)
				}
				return keys["per-ip 127.0.0.1"] >= int64(len(agents)) // HAProxy logs the first connection too
			})
			if n := b.uncounted("format") + b.uncounted("address") + b.uncounted("time"); n != 0 {
				t.Errorf("%v lines could not be read", n)
			}
		})
	}
}
