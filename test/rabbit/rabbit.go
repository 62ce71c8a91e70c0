// Package rabbit runs a real RabbitMQ for tests, with an epmd of its own.
package rabbit

import (
	"bytes"
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
	made        map[string]string // queues, with their types
	conn        *amqp.Connection
	channel     *amqp.Channel
	refused     error // why the last connect failed
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
	s := &Server{t: t, program: found[0], Addr: port.Reserve(t, "127.0.0.1"), Folder: t.TempDir(), made: map[string]string{}}
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
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			s.explain()
		}
	})
	s.Restart()
	return s
}

// script runs the server and its epmd until its standard input ends, as it does when this process ends.
const script = `epmd & "$@" </dev/null & cat; kill -9 0`

// stuck is after how long a server without an answer is killed and started once more.
const stuck = 40 * time.Second

// Restart starts the server again after Kill, and returns when it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.start()
	s.await()
}

// await connects, once the server and its queues answer.
func (s *Server) await() {
	s.t.Helper()
	began := time.Now()
	wait.Until(s.t, "RabbitMQ to answer", func() bool {
		if s.refused = s.connect(); s.refused != nil && time.Since(began) > stuck {
			s.t.Logf("RabbitMQ is started once more: %v", s.refused)
			s.kill()
			s.start()
			began = time.Now()
		}
		return s.refused == nil
	})
}

func (s *Server) start() {
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
}

// explain shows why a server may not have answered.
func (s *Server) explain() {
	s.t.Helper()
	logs, _ := filepath.Glob(filepath.Join(s.Folder, "*.log"))
	for _, path := range append(logs, filepath.Join(s.Folder, "output")) {
		text, _ := os.ReadFile(path)
		s.t.Logf("%s ends with:\n%s", filepath.Base(path), text[max(0, len(text)-4<<10):])
	}
	s.t.Logf("the last try to connect: %v", s.refused)
}

func (s *Server) connect() (err error) {
	if s.conn, err = amqp.Dial(s.URL); err != nil {
		return err
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
	return err
}

// Kill ends the server as kill -9 does, once its files name the leaders of its queues. It writes these names about once a
// second, and RabbitMQ 3.10 never finds a stream or a quorum queue again whose leader they do not name.
func (s *Server) Kill() {
	s.t.Helper()
	for queue, kind := range s.made {
		switch kind {
		case "stream":
			s.awaitName("coordination", "rabbit_stream_coordinator") // of all streams
		case "quorum":
			s.awaitName("quorum", queue)
		}
	}
	s.kill()
}

func (s *Server) awaitName(of, leader string) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Folder, "*", of, "*", "names.dets"))
	if err != nil || len(files) != 1 {
		s.t.Fatal(files, err)
	}
	wait.Until(s.t, "the name of "+leader, func() bool {
		names, err := os.ReadFile(files[0])
		return err == nil && bytes.Contains(names, []byte(leader))
	})
}

func (s *Server) kill() {
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
	s.made[queue] = kind
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

// Disconnect ends the connections of all clients.
func (s *Server) Disconnect() {
	s.t.Helper()
	s.Control("close_all_connections", "a test")
	s.await()
}

// Ready is how many messages of a queue are with no consumer.
func (s *Server) Ready(queue string) int {
	s.t.Helper()
	state, err := s.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return state.Messages
}

// Control runs rabbitmqctl, and returns what it prints.
func (s *Server) Control(arguments ...string) string {
	s.t.Helper()
	command := exec.Command(filepath.Join(filepath.Dir(s.program), "rabbitmqctl"), append([]string{"-q"}, arguments...)...)
	command.Dir, command.Env = s.Folder, s.environment
	output, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}
