package collector

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// senderPath is a program that sends syslog, if it is on this machine.
func senderPath(t *testing.T, name, remedy string) string {
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("WEIR_REQUIRE_REAL") != "" {
		t.Fatalf("%s is wanted here: %s", name, remedy)
	}
	if err != nil {
		t.Skipf("%s cannot be had here: %s", name, remedy)
	}
	return path
}

// rsyslog follows a log and forwards it to us, as those who have it already will have it.
func TestSyslogFromRsyslog(t *testing.T) {
	path := senderPath(t, "rsyslogd", "apt-get install rsyslog")
	for name, forward := range map[string]struct{ listen, parameters string }{
		"udp 3164":  {"udp", `protocol="udp" template="RSYSLOG_TraditionalForwardFormat"`},
		"udp 5424":  {"udp", `protocol="udp" template="RSYSLOG_SyslogProtocol23Format"`},
		"tcp lines": {"tcp", `protocol="tcp" template="RSYSLOG_ForwardFormat"`},
		"as documented": {"tcp", `protocol="tcp" TCP_Framing="octet-counted" queue.type="LinkedList" queue.filename="weir" ` +
			`queue.saveOnShutdown="on" queue.dequeueBatchSize="1" action.resumeRetryCount="-1"`},
		"tcp octets 5424": {"tcp", `protocol="tcp" TCP_Framing="octet-counted" template="RSYSLOG_SyslogProtocol23Format"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSyslogBench(t, forward.listen)
			b.start()
			b.log("access.log", 200)
			_, port, _ := strings.Cut(b.address(), "://127.0.0.1:")
			work := t.TempDir()
			config := fmt.Sprintf(`
				global(workDirectory=%q maxMessageSize="64k")
				module(load="imfile" mode="inotify")
				input(type="imfile" file=%q tag="nginx:" addMetadata="off")
				action(type="omfwd" target="127.0.0.1" port="%s" %s)`, work, b.path("access.log"), port, forward.parameters)
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
			b.sink.await(t, b.want)
			if n := b.uncounted(reasonFormat); n != 0 {
				t.Errorf("%v lines could not be read", n)
			}
		})
	}
}

// logger sends as everyone's scripts do.
func TestSyslogFromLogger(t *testing.T) {
	path := senderPath(t, "logger", "apt-get install bsdutils")
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
			b.sink.await(t, b.want)
			if n := b.uncounted(reasonFormat); n != 0 {
				t.Errorf("%v lines could not be read", n)
			}
		})
	}
}
