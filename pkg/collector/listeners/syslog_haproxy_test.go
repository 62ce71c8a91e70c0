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
	"weir/test/wait"
)

// HAProxy sends its log over UDP in each form that a log line of its configuration can name.
func TestSyslogFromHAProxy(t *testing.T) {
	path := senderPath(t, "haproxy", "apt-get install haproxy")
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
				"frontend shop\n bind %s\n http-request return status 200\n", to, at)
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
			answer, err := http.Get("http://" + at + "/signin")
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			wait.Until(t, "the request is counted", func() bool {
				keys, _ := b.sink.Counted(t)
				return keys["per-ip 127.0.0.1"] > 0
			})
			if n := b.uncounted("format") + b.uncounted("address") + b.uncounted("time"); n != 0 {
				t.Errorf("%v lines could not be read", n)
			}
		})
	}
}
