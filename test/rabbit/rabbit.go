// Package rabbit runs a real RabbitMQ for tests, with an epmd of its own.
package rabbit

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// A Server is a server that a test may kill and start again. It belongs to the test's goroutine.
type Server struct {
	Addr   string // host and port
	URL    string // with the default user
	Folder string

	t           testing.TB
	streams     string // where the stream protocol is spoken
	program     string
	environment []string
	command     *exec.Cmd
	alive       io.Closer
	made        map[string]bool // queues
	conn        *amqp.Connection
	channel     *amqp.Channel
}

// WithStreams is a configuration of a server that speaks the stream protocol too.
const WithStreams = "stream.listeners.tcp.1 = STREAMS\n"

// Start starts a server with a configuration besides its address.
func Start(t testing.TB, configuration string) *Server {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	if len(found) == 0 {
		real.Missing(t, "rabbitmq-server is missing: apt-get install rabbitmq-server")
	}
	s := &Server{t: t, program: found[0], Addr: port.Reserve(t, "127.0.0.1"), Folder: t.TempDir(), made: map[string]bool{}}
	s.URL = "amqp://guest:guest@" + s.Addr
	_, own, _ := net.SplitHostPort(s.Addr)
	_, names, _ := net.SplitHostPort(port.Reserve(t, "127.0.0.1"))
	_, nodes, _ := net.SplitHostPort(port.Reserve(t, "127.0.0.1"))
	plugins := "[].\n"
	if strings.Contains(configuration, "STREAMS") {
		s.streams = port.Reserve(t, "127.0.0.1")
		configuration, plugins = strings.ReplaceAll(configuration, "STREAMS", s.streams), "[rabbitmq_stream].\n"
	}
	write := func(name, text string) string {
		path := filepath.Join(s.Folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s.environment = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.Folder, "LC_ALL=C.UTF-8", "ERL_EPMD_PORT=" + names, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=weir" + own + "@localhost", "RABBITMQ_DIST_PORT=" + nodes, "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + own,
		"RABBITMQ_MNESIA_BASE=" + s.Folder, "RABBITMQ_LOG_BASE=" + s.Folder, "RABBITMQ_PID_FILE=" + filepath.Join(s.Folder, "pid"),
		"RABBITMQ_CONF_ENV_FILE=" + write("env.conf", ""), "RABBITMQ_ENABLED_PLUGINS_FILE=" + write("plugins", plugins),
		"RABBITMQ_CONFIG_FILE=" + write("rabbitmq.conf", configuration), "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
	}
	write(".erlang.cookie", "weir"+own)
	if err := os.Chmod(filepath.Join(s.Folder, ".erlang.cookie"), 0o400); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	s.Restart()
	return s
}

// script runs the server and its epmd until its standard input ends, as it does when this process ends.
const script = `epmd & "$@" </dev/null & cat; kill -9 0`

// Restart starts the server again after Kill, and returns when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	output, err := os.OpenFile(filepath.Join(s.Folder, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer output.Close()
	s.command = exec.Command("sh", "-c", script, "sh", s.program)
	s.command.Dir, s.command.Env, s.command.Stdout, s.command.Stderr = s.Folder, s.environment, output, output
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.alive, err = s.command.StdinPipe(); err == nil {
		err = s.command.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	wait.Until(s.t, "RabbitMQ to answer", func() bool {
		if s.conn, err = amqp.Dial(s.URL); err != nil {
			return false
		}
		if s.channel, err = s.conn.Channel(); err == nil {
			err = s.channel.Confirm(false)
		}
		for queue := range s.made { // they come some time after the server
			if err == nil {
				_, err = s.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
			}
		}
		if err != nil {
			_ = s.conn.Close()
		}
		return err == nil
	})
}

// Kill ends the server at once, as kill -9 does.
func (s *Server) Kill() {
	if s.command != nil {
		_ = syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL)
		_ = s.command.Wait()
		_ = s.alive.Close()
		if s.conn != nil {
			_ = s.conn.Close() // it is broken
		}
		s.command = nil
	}
}

// Make makes a queue of a type: stream, classic or quorum.
func (s *Server) Make(queue, kind string, more ...any) {
	s.t.Helper()
	arguments := amqp.Table{"x-queue-type": kind}
	for i := 0; i+1 < len(more); i += 2 {
		arguments[more[i].(string)] = more[i+1]
	}
	s.made[queue] = true
	if _, err := s.channel.QueueDeclare(queue, true, false, false, false, arguments); err != nil {
		s.t.Fatal(err)
	}
}

// Delete deletes a queue.
func (s *Server) Delete(queue string) {
	s.t.Helper()
	delete(s.made, queue)
	if _, err := s.channel.QueueDelete(queue, false, false, false); err != nil {
		s.t.Fatal(err)
	}
}

// Add publishes lines, and returns when the server has all of them.
func (s *Server) Add(queue string, lines []string) {
	s.t.Helper()
	var all []amqp.Publishing
	for _, line := range lines {
		all = append(all, amqp.Publishing{Body: []byte(line), DeliveryMode: amqp.Persistent})
	}
	s.Publish(queue, all...)
}

// Publish publishes messages, and returns when the server has all of them.
func (s *Server) Publish(queue string, messages ...amqp.Publishing) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var confirms []*amqp.DeferredConfirmation
	for _, message := range messages {
		confirm, err := s.channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, message)
		if err != nil {
			s.t.Fatal(err)
		}
		confirms = append(confirms, confirm)
	}
	for _, confirm := range confirms {
		if ok, err := confirm.WaitContext(ctx); err != nil || !ok {
			s.t.Fatal(ok, err)
		}
	}
}
