package daemon

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A listening stands for systemd: it keeps the notifications that it receives.
type listening struct {
	mu   sync.Mutex
	told []string
}

func listenAsSystemd(t *testing.T) *listening {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path)
	l := &listening{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := socket.Read(b)
			if err != nil {
				return
			}
			l.mu.Lock()
			l.told = append(l.told, string(b[:n]))
			l.mu.Unlock()
		}
	}()
	t.Cleanup(func() { socket.Close(); <-done })
	return l
}

func (l *listening) has(beginnings ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, told := range l.told {
		if len(beginnings) > 0 && strings.HasPrefix(told, beginnings[0]) {
			beginnings = beginnings[1:]
		}
	}
	return len(beginnings) == 0
}

func TestSystemdIsNotified(t *testing.T) {
	systemd := listenAsSystemd(t)
	p := newPlace(t, "")
	p.start()
	p.await("told that it is ready", func() bool { return systemd.has("READY=1\n") })
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.await("told of the reload", func() bool { return systemd.has("READY=1\n", "RELOADING=1\nMONOTONIC_USEC=", "READY=1") })
	p.stop()
	p.await("told of the end", func() bool { return systemd.has("READY=1", "STOPPING=1") })
}
