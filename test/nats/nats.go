// Package nats runs a real nats-server with JetStream for tests.
package nats

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// A Server is a server that a test may kill and start again. It belongs to the test's goroutine.
type Server struct {
	URL    string
	Folder string

	t       testing.TB
	program string
	command *exec.Cmd
	conn    *nats.Conn
}

// Synced has the server sync each message: then a killed one loses none. It takes about a millisecond a message.
const Synced = "jetstream: {store_dir: store, sync_interval: always}\n"

// Unsynced leaves messages to the system, and those of the last moment to the server's memory.
const Unsynced = "jetstream: {store_dir: store}\n"

// Start starts a server with a configuration besides its address.
func Start(t testing.TB, configuration string) *Server {
	t.Helper()
	program, err := exec.LookPath("nats-server")
	if err != nil {
		real.Missing(t, "nats-server is missing: go install github.com/nats-io/nats-server/v2@v2.15.2")
	}
	address := port.Reserve(t, "127.0.0.1")
	s := &Server{t: t, program: program, URL: "nats://" + address, Folder: t.TempDir()}
	s.Configure("listen: \"" + address + "\"\n" + configuration)
	s.Restart()
	t.Cleanup(func() {
		if s.conn != nil {
			s.conn.Close()
		}
		s.Kill()
	})
	return s
}

// Configure writes the server's configuration, which it reads at its start.
func (s *Server) Configure(text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.Folder, "server.conf"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Change replaces a text in the configuration, and has the server read it.
func (s *Server) Change(from, to string) {
	s.t.Helper()
	path := filepath.Join(s.Folder, "server.conf")
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), from) {
		s.t.Fatal(err, string(text))
	}
	s.Configure(strings.ReplaceAll(string(text), from, to))
	if out, err := exec.Command(s.program, "--signal", "reload="+filepath.Join(s.Folder, "pid")).CombinedOutput(); err != nil {
		s.t.Fatal(err, string(out))
	}
}

// Restart starts the server again after Kill, and returns when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	output, err := os.OpenFile(filepath.Join(s.Folder, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer output.Close()
	s.command = exec.Command(s.program, "--config", filepath.Join(s.Folder, "server.conf"), "--pid", filepath.Join(s.Folder, "pid"))
	s.command.Dir, s.command.Stdout, s.command.Stderr = s.Folder, output, output
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	wait.Until(s.t, "nats-server to be ready", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.Folder, "output"))
		_, after, _ := strings.Cut(string(text), "["+strconv.Itoa(s.command.Process.Pid)+"]")
		if strings.Contains(string(text), ".conf:") {
			s.t.Fatal(string(text))
		}
		return strings.Contains(after, "Server is ready")
	})
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() {
	if s.command != nil {
		_ = s.command.Process.Kill()
		_ = s.command.Wait()
		s.command = nil
	}
}

// Client connects as a client with these options; the first call does.
func (s *Server) Client(options ...nats.Option) jetstream.JetStream {
	s.t.Helper()
	if s.conn == nil {
		conn, err := nats.Connect(s.URL, append(options, nats.MaxReconnects(-1))...)
		if err != nil {
			s.t.Fatal(err)
		}
		s.conn = conn
	}
	js, err := jetstream.New(s.conn)
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}

// Add publishes lines, and returns when the server has all of them.
func (s *Server) Add(subject string, lines []string) {
	s.t.Helper()
	js := s.Client()
	for chunk := range slices.Chunk(lines, 1000) {
		var all []jetstream.PubAckFuture
		for _, line := range chunk {
			future, err := js.PublishAsync(subject, []byte(line))
			if err != nil {
				s.t.Fatal(err)
			}
			all = append(all, future)
		}
		for _, future := range all {
			select {
			case <-future.Ok():
			case err := <-future.Err():
				s.t.Fatal(err)
			}
		}
	}
}
