package listeners

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// rsyslog follows a log and forwards it to us, as in an existing installation.
func TestSyslogFromRsyslog(t *testing.T) {
	path := real.Program(t, "rsyslogd", "rsyslog")
	for name, forward := range map[string]struct{ listen, tag, parameters string }{
		"udp 3164":        {"udp", "nginx:", `protocol="udp" template="RSYSLOG_TraditionalForwardFormat"`},
		"udp 5424":        {"udp", "nginx:", `protocol="udp" template="RSYSLOG_SyslogProtocol23Format"`},
		"udp, bare tag":   {"udp", "nginx", `protocol="udp" template="RSYSLOG_TraditionalForwardFormat"`},
		"lines, bare tag": {"tcp", "nginx", `protocol="tcp" template="RSYSLOG_ForwardFormat"`},
		"tcp lines":       {"tcp", "nginx:", `protocol="tcp" template="RSYSLOG_ForwardFormat"`},
		"as documented": {"tcp", "nginx:", `protocol="tcp" TCP_Framing="octet-counted" queue.type="LinkedList" queue.filename="weir" ` +
			`queue.saveOnShutdown="on" queue.dequeueBatchSize="1" action.resumeRetryCount="-1"`},
		"tcp octets 5424": {"tcp", "nginx:", `protocol="tcp" TCP_Framing="octet-counted" template="RSYSLOG_SyslogProtocol23Format"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSyslogBench(t, forward.listen)
			b.start()
			b.Log("access.log", 200)
			_, port, _ := strings.Cut(b.address(), "://127.0.0.1:")
			work := t.TempDir()
			config := fmt.Sprintf(`
				global(workDirectory=%q maxMessageSize="64k")
				module(load="imfile" mode="inotify")
				input(type="imfile" file=%q tag=%q addMetadata="off")
				action(type="omfwd" target="127.0.0.1" port="%s" %s)`, work, b.Path("access.log"), forward.tag, port, forward.parameters)
			file := filepath.Join(work, "rsyslog.conf")
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), path, "-n", "-f", file, "-i", filepath.Join(work, "pid"))
			command.Stdout, command.Stderr = t.Output(), t.Output()
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { command.Process.Kill(); command.Wait() }()
			b.sink.Await(t, b.Want)
			if n := b.uncounted("format") + b.uncounted("address"); n != 0 {
				t.Errorf("%v lines could not be read", n)
			}
		})
	}
}

// A relay: nginx sends to rsyslog, which sends the lines on in the form of RFC 5424. It counts the space behind the tag
// to the message.
func TestSyslogThroughRsyslog(t *testing.T) {
	path := real.Program(t, "rsyslogd", "rsyslog")
	b := newSyslogBench(t, "tcp")
	b.start()
	b.Log("access.log", 200)
	lines, err := os.ReadFile(b.Path("access.log"))
	if err != nil {
		t.Fatal(err)
	}

	_, to, _ := strings.Cut(b.address(), "://127.0.0.1:")
	work, relay := t.TempDir(), port.Reserve(t, "127.0.0.1")
	_, from, _ := strings.Cut(relay, ":")
	file := filepath.Join(work, "rsyslog.conf")
	config := fmt.Sprintf(`
		global(workDirectory=%q maxMessageSize="64k")
		module(load="imtcp")
		input(type="imtcp" address="127.0.0.1" port=%q)
		if ($programname == "nginx") then
			action(type="omfwd" target="127.0.0.1" port=%q protocol="tcp" TCP_Framing="octet-counted" template="RSYSLOG_SyslogProtocol23Format")`, work, from, to)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), path, "-n", "-f", file, "-i", filepath.Join(work, "pid"))
	command.Stdout, command.Stderr = t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { command.Process.Kill(); command.Wait() }()

	var nginx net.Conn
	wait.Until(t, "rsyslog listens", func() bool {
		nginx, err = net.Dial("tcp", relay)
		return err == nil
	})
	defer nginx.Close()
	for line := range strings.Lines(string(lines)) {
		fmt.Fprintf(nginx, "<190>Nov 22 12:14:14 web1 nginx: %s", line)
	}
	b.sink.Await(t, b.Want)
}

// documentedRsyslog is the action of rsyslog in docs/sending.md, sent to a port of ours and tried each second.
func documentedRsyslog(t *testing.T, port string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/sending.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "    action(")
	action, _, closed := strings.Cut(rest, ")\n")
	const target = `target="collector" port="5514"`
	if !found || !closed || !strings.Contains(action, target) {
		t.Fatalf("docs/sending.md has no action of rsyslog: %q", action)
	}
	return "action(" + strings.Replace(action, target, fmt.Sprintf(`target="127.0.0.1" port="%s" action.resumeInterval="1"`, port), 1) + ")"
}

// awaitQueued waits until rsyslog's statistics say that so many lines were put into the queue of its sender.
func awaitQueued(t *testing.T, stats string, lines int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text, _ := os.ReadFile(stats)
		for line := range strings.Lines(string(text)) {
			var s struct {
				Name     string
				Origin   string
				Enqueued int
			}
			_, object, _ := strings.Cut(line, "{")
			if json.Unmarshal([]byte("{"+object), &s) == nil && s.Origin == "core.queue" && s.Name != "main Q" && s.Enqueued >= lines {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("rsyslog has not queued %d lines:\n%s", lines, text)
		}
	}
}

// awaitAll waits until all lines are counted, and returns how many more were.
func (b *bench) awaitAll() (more int64) {
	b.T.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		keys, conflicts := b.sink.Counted(b.T)
		all := conflicts == 0
		more = 0
		for key, want := range b.Want {
			all = all && keys[key] >= want
			more += keys[key] - want
		}
		if all {
			return more
		}
		if time.Now().After(deadline) {
			b.T.Fatalf("counted %v, want %v; %d conflicts", keys, b.Want, conflicts)
		}
	}
}

// With the settings of docs/sending.md, rsyslog loses nothing at its own restart while Weir is away. Each of its
// workers, that of the disk and that of the memory, sends a line twice.
func TestSyslogFromRsyslogThatRestarts(t *testing.T) {
	t.Parallel()
	path := real.Program(t, "rsyslogd", "rsyslog")
	address := port.Reserve(t, "127.0.0.1")
	b := newSyslogBench(t, "tcp://"+address)
	_, number, _ := strings.Cut(address, ":")
	work := t.TempDir()
	stats := filepath.Join(work, "stats")
	config := fmt.Sprintf(`
		global(workDirectory=%q maxMessageSize="64k")
		module(load="impstats" interval="1" format="json" log.syslog="off" log.file=%q)
		module(load="imfile" mode="inotify")
		input(type="imfile" file=%q tag="nginx:" addMetadata="off")
		%s`, work, stats, b.Path("access.log"), documentedRsyslog(t, number))
	file := filepath.Join(work, "rsyslog.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() (end func()) {
		command := exec.CommandContext(t.Context(), path, "-n", "-f", file, "-i", filepath.Join(work, "pid"))
		command.Stdout, command.Stderr = t.Output(), t.Output()
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		return sync.OnceFunc(func() {
			command.Process.Signal(syscall.SIGTERM)
			command.Wait()
		})
	}

	end := start()
	b.Log("access.log", 300)
	awaitQueued(t, stats, 300)
	end()
	if kept, _ := filepath.Glob(filepath.Join(work, "weir*")); len(kept) == 0 {
		t.Error("rsyslog has kept no queue")
	}
	defer start()()
	b.Log("access.log", 50)
	b.start()
	if more := b.awaitAll(); more > 4 {
		t.Errorf("%d lines are sent twice", more)
	}
	if n := b.uncounted("format"); n != 0 {
		t.Errorf("%v lines could not be read", n)
	}
}

// logger sends as in many scripts.
func TestSyslogFromLogger(t *testing.T) {
	path := real.Program(t, "logger", "bsdutils")
	for name, test := range map[string]struct{ listen, arguments string }{
		"udp":         {"udp", "--udp"},
		"udp 3164":    {"udp", "--udp --rfc3164 --tag nginx"},
		"tcp":         {"tcp", "--tcp --rfc5424"},
		"tcp 3164":    {"tcp", "--tcp --rfc3164"},
		"tcp octets":  {"tcp", "--tcp --octet-count"},
		"unix":        {"unix", "--rfc5424 --socket"},
		"unix 3164":   {"unix", "--rfc3164 --socket"},
		"unix stream": {"unixstream", "--rfc5424 --socket"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSyslogBench(t, test.listen)
			b.start()
			arguments := strings.Fields(test.arguments)
			if _, address, _ := strings.Cut(b.address(), "://"); strings.HasPrefix(test.listen, "unix") {
				arguments = append(arguments, address)
			} else {
				host, port, _ := strings.Cut(address, ":")
				arguments = append(arguments, "--server", host, "--port", port)
			}
			command := exec.CommandContext(t.Context(), path, arguments...)
			command.Stdin = strings.NewReader(b.body(20))
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			b.sink.Await(t, b.Want)
			if n := b.uncounted("format") + b.uncounted("address"); n != 0 {
				t.Errorf("%v lines could not be read", n)
			}
		})
	}
}
