// Package sqlserver gives tests a real PostgreSQL or MariaDB: the server of this machine, on a loopback port and in a
// folder of the test's own, for the duration of the test.
//
// Without the server the test is skipped with the reason in one line; with WEIR_REQUIRE_REAL in the environment it
// fails. PostgreSQL refuses to run as root. So if the test is root, a server runs as the user that its package makes.
package sqlserver

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/test/port"
	"weir/test/wait"
)

// User, Password and Database are those of every server. The user may do everything in the database.
const (
	User     = "weir"
	Password = "pass:word@/?"
	Database = "limits"
)

// A Server is one that a test may kill and start again. It belongs to the test's goroutine.
type Server struct {
	Addr   string // host and port, the same after every start
	Folder string // of its files
	URL    string // for the user, with the password
	CA     string // the certificate by which TLS is verified

	t       testing.TB
	as      *syscall.SysProcAttr
	program string
	args    []string
	driver  string
	admin   string // the data source name of the administrator
	ping    func(context.Context) error
	command *exec.Cmd
	alive   io.Closer // the server ends when this is closed, and so with this process
}

// newServer returns one that is killed with the test, once it has been started.
func newServer(t testing.TB, program, account string) *Server {
	t.Helper()
	folder, err := os.MkdirTemp("", "weir-sql-") // not t.TempDir, which another user cannot enter
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: port.Reserve(t, "127.0.0.1"), Folder: folder, t: t, program: program, as: &syscall.SysProcAttr{}}
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(folder)
	})
	if os.Getuid() == 0 {
		uid, gid := ids(t, account)
		s.as.Credential = &syscall.Credential{Uid: uid, Gid: gid}
		if err := os.Chown(folder, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func ids(t testing.TB, account string) (uid, gid uint32) {
	t.Helper()
	a, err := user.Lookup(account)
	if err != nil {
		t.Fatal(err)
	}
	u, err := strconv.ParseUint(a.Uid, 10, 32)
	g, err2 := strconv.ParseUint(a.Gid, 10, 32)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return uint32(u), uint32(g)
}

// run runs a program to its end as the server's user.
func (s *Server) run(program string, args ...string) {
	s.t.Helper()
	c := exec.CommandContext(s.t.Context(), program, args...)
	c.Dir, c.SysProcAttr = s.Folder, s.as
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// script runs a server and kills it, with the processes that it has started, when its own input ends.
const script = `"$@" & server=$!; cat >/dev/null; kill -9 $server $(cat /proc/$server/task/*/children); wait $server`

// Restart starts the server again after Kill, and returns when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	wait.Until(s.t, s.program+" answers", func() bool {
		if s.command == nil || s.ended() {
			s.Kill()
			s.start()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return s.ping(ctx) == nil
	})
}

func (s *Server) start() {
	s.t.Helper()
	output, err := os.OpenFile(filepath.Join(s.Folder, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer output.Close()
	s.command = exec.Command("sh", append([]string{"-c", script, "sh", s.program}, s.args...)...)
	s.command.Dir, s.command.SysProcAttr = s.Folder, s.as
	s.command.Stdout, s.command.Stderr = output, output
	if s.alive, err = s.command.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// Kill ends the server at once, as kill -9 of all its processes does.
func (s *Server) Kill() {
	if s.command == nil {
		return
	}
	s.alive.Close()
	_ = s.command.Wait()
	s.command = nil
}

// Pause stops the server, as a machine that hangs, until resume is called. It returns when all of its threads stand still.
func (s *Server) Pause() (resume func()) {
	s.t.Helper()
	signal := func(what syscall.Signal) {
		for _, pid := range s.processes() {
			_ = syscall.Kill(pid, what)
		}
	}
	wait.Until(s.t, "the server to stand still", func() bool {
		signal(syscall.SIGSTOP)
		return !slices.ContainsFunc(s.processes(), runs)
	})
	return func() { signal(syscall.SIGCONT) }
}

// runs reports whether a thread of a process is not stopped.
func runs(pid int) bool {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	return slices.ContainsFunc(threads, func(thread string) bool {
		text, err := os.ReadFile(thread)
		state := text[bytes.LastIndexByte(text, ')')+1:]
		return err == nil && !bytes.HasPrefix(state, []byte(" T")) && !bytes.HasPrefix(state, []byte(" Z"))
	})
}

// ended reports whether the server has ended by itself, as when it found a trace of the one before.
func (s *Server) ended() bool { return len(s.processes()) == 0 }

// processes are the server's, the first one first.
func (s *Server) processes() (pids []int) {
	for next := []int{s.command.Process.Pid}; len(next) > 0; next = next[1:] {
		lists, _ := filepath.Glob("/proc/" + strconv.Itoa(next[0]) + "/task/*/children")
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, field := range strings.Fields(string(text)) {
				pid, err := strconv.Atoi(field)
				name, _ := os.ReadFile("/proc/" + field + "/comm")
				if err == nil && string(name) != "cat\n" {
					next, pids = append(next, pid), append(pids, pid)
				}
			}
		}
	}
	return pids
}

// Admin runs statements as the administrator.
func (s *Server) Admin(t testing.TB, statements ...string) {
	t.Helper()
	db, err := sql.Open(s.driver, s.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// AdminURL is the data source name of the administrator.
func (s *Server) AdminURL() string { return s.admin }

// Output is what the server has written.
func (s *Server) Output() string {
	text, _ := os.ReadFile(filepath.Join(s.Folder, "output"))
	return string(text)
}

func (s *Server) hostPort() (host, number string) {
	s.t.Helper()
	host, number, err := net.SplitHostPort(s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	return host, number
}
