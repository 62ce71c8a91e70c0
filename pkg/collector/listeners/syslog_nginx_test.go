package listeners

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/test/port"
	"weir/test/real"
)

// nginxTo is the address of an nginx that answers requests at once and logs each to a syslog server.
func nginxTo(t *testing.T, server string) (address string) {
	t.Helper()
	path, folder, address := real.Program(t, "nginx", "nginx"), t.TempDir(), port.Reserve(t, "127.0.0.1")
	temp := ""
	for _, of := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("%s_temp_path %s; ", of, filepath.Join(folder, of))
	}
	config := fmt.Sprintf(`
		daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log crit;
		events {}
		http {
			%[2]s
			access_log syslog:server=%[3]s,tag=nginx combined;
			server { listen %[4]s; keepalive_requests 100000; location / { return 204; } }
		}`, folder, temp, server, address)
	file := filepath.Join(folder, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), path, "-c", file, "-e", filepath.Join(folder, "error.log"))
	command.Stdout, command.Stderr = t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Process.Kill(); command.Wait() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// askNginx sends requests from eight clients at a time, and requires an answer to each.
func askNginx(t *testing.T, address string, requests int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range requests / 8 {
				answer, err := client.Get("http://" + address + "/")
				if err != nil {
					t.Error(err)
					return
				}
				answer.Body.Close()
				if answer.StatusCode != http.StatusNoContent {
					t.Errorf("nginx answers %s", answer.Status)
				}
			}
		})
	}
	clients.Wait()
}

const nginxRequests = 8 * 1000

// Each line that nginx sends over UDP is counted once, or among those without room.
func TestSyslogFromNginxUDP(t *testing.T) {
	b := newSyslogBench(t, "udp")
	b.start()
	_, server, _ := strings.Cut(b.address(), "://")
	askNginx(t, nginxTo(t, server), nginxRequests)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		keys, conflicts := b.sink.Counted(t)
		counted, dropped := keys["per-ip 127.0.0.1"], testutil.ToFloat64(b.source().dropped)+testutil.ToFloat64(b.source().kernel)
		if counted+int64(dropped) == nginxRequests && conflicts == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d lines of %d counted, %v dropped, %d conflicts", counted, nginxRequests, dropped, conflicts)
		}
	}
	if n := b.uncounted("format"); n != 0 {
		t.Errorf("%v lines could not be read", n)
	}
}

// Lines that nginx sends to a unix socket are counted at most once. If the socket is not read, nginx continues, and
// lines without room are lost: docs/sending.md recommends UDP.
func TestSyslogFromNginxUnix(t *testing.T) {
	t.Parallel()
	b := newSyslogBench(t, "unix")
	b.start()
	_, socket, _ := strings.Cut(b.address(), "://")
	askNginx(t, nginxTo(t, "unix:"+socket), nginxRequests)
	b.send(b.dial(), b.Line()) // comes behind all others
	last := "per-ip 203.0.113.1"
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		keys, conflicts := b.sink.Counted(t)
		if keys[last] == 1 {
			if n := keys["per-ip 127.0.0.1"]; n == 0 || n > nginxRequests || conflicts > 0 {
				t.Errorf("%d lines of %d counted, %d conflicts", n, nginxRequests, conflicts)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v counted", keys)
		}
	}
	if n := b.uncounted("format") + b.uncounted("long"); n != 0 {
		t.Errorf("%v lines could not be read", n)
	}
}

// Nginx does not wait for a unix socket that no process reads.
func TestNginxDoesNotWaitForAUnixSocket(t *testing.T) {
	t.Parallel()
	setting, err := os.ReadFile(unixQueueSetting)
	queue, wrong := strconv.Atoi(strings.TrimSpace(string(setting)))
	if err = errors.Join(err, wrong); err != nil || queue+8 >= nginxRequests {
		t.Skipf("%d datagrams may wait: %v", queue, err)
	}
	socket := filepath.Join(t.TempDir(), "log")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	askNginx(t, nginxTo(t, "unix:"+socket), nginxRequests)
	arrived := 0
	for buffer := make([]byte, 4096); ; arrived++ {
		conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := conn.Read(buffer); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if arrived == 0 || arrived > queue+8 {
		t.Errorf("%d lines of %d arrived where %d may wait: docs/sending.md says what nginx loses", arrived, nginxRequests, queue)
	}
}
