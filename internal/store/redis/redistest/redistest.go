// Package redistest gives tests a real Redis: the redis-server of this machine, on a free loopback port and in a folder
// of the test's own, for the duration of the test.
//
// Without a redis-server, Start skips the test with the reason in one line; with WEIR_REQUIRE_REAL=1 in the environment
// it fails it.
package redistest

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// patience is how long a server may take to start.
const patience = time.Minute

// A Server is a Redis that a test may kill and start again. It belongs to the test's goroutine.
type Server struct {
	Addr   string // host and port, the same after every start
	Folder string // of its files
	Client *goredis.Client

	t         testing.TB
	arguments []string
	command   *exec.Cmd
	alive     io.Closer // the server ends when this is closed, and so with this process
}

// Start starts a server that keeps nothing on disk. Arguments, written as in redis.conf with two dashes in front, can
// change that.
func Start(t testing.TB, arguments ...string) *Server {
	t.Helper()
	mustBeHad(t)
	s := newServer(t)
	_, port, _ := net.SplitHostPort(s.Addr)
	s.arguments = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.Folder, "--save", ""}, arguments...)
	s.Restart()
	return s
}

func mustBeHad(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("WEIR_REQUIRE_REAL") == "1" {
			t.Fatalf("a real Redis is required: %v", err)
		}
		t.Skipf("not tried on a real Redis: %v (Debian: apt-get install redis-server)", err)
	}
}

// newServer returns one that is killed with the test, once it has been started.
func newServer(t testing.TB) *Server {
	t.Helper()
	addr := freeAddress(t)
	s := &Server{Addr: addr, Folder: t.TempDir(), t: t, Client: goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1})}
	t.Cleanup(func() {
		s.Kill()
		s.Client.Close()
	})
	return s
}

// freeAddress returns an address that nothing has. The system gives its port to no connection, because it is below those
// that it gives.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		addr := "127.0.0.1:" + strconv.Itoa(20_000+rand.IntN(12_000))
		if listener, err := net.Listen("tcp", addr); err == nil {
			_ = listener.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// script runs a server and kills it when its own input ends.
const script = `redis-server "$@" & server=$!; cat >/dev/null; kill -9 $server; wait $server`

// Restart starts the server again after Kill, and returns when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	output, err := os.OpenFile(filepath.Join(s.Folder, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer output.Close()
	s.command = exec.Command("sh", append([]string{"-c", script, "sh"}, s.arguments...)...)
	s.command.Stdout, s.command.Stderr = output, output
	if s.alive, err = s.command.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.await(ctx, "redis-server answers", func() bool {
		err := s.Client.Ping(ctx).Err()
		return err == nil || goredis.HasErrorPrefix(err, "NOAUTH")
	})
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() {
	if s.alive == nil {
		return
	}
	s.alive.Close()
	s.command.Wait()
	s.alive = nil
}

// Pause stops the server, as a machine that hangs, until resume is called.
func (s *Server) Pause() (resume func()) {
	s.t.Helper()
	info, err := s.Client.InfoMap(context.Background(), "server").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	pid, err := strconv.Atoi(info["Server"]["process_id"])
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return func() { syscall.Kill(pid, syscall.SIGCONT) }
}

// Memory returns how many bytes the server uses.
func (s *Server) Memory() int {
	s.t.Helper()
	info, err := s.Client.InfoMap(context.Background(), "memory").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	used, err := strconv.Atoi(info["Memory"]["used_memory"])
	if err != nil {
		s.t.Fatal(err)
	}
	return used
}

// CPU returns the processor time that the server has used.
func (s *Server) CPU() time.Duration {
	s.t.Helper()
	info, err := s.Client.InfoMap(context.Background(), "cpu").Result()
	if err != nil {
		s.t.Fatal(err)
	}

	var used float64
	for _, mode := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][mode], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		used += seconds
	}

	return time.Duration(used * float64(time.Second))
}
