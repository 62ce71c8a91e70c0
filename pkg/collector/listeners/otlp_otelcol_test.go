package listeners

import (
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"weir/test/locked"
	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// An OpenTelemetry Collector with the file of deployments/shippers loses no line: neither when it is killed, nor when
// it ends and starts again while Weir is away. A line that is sent twice counts twice.
func TestOTLPFromTheOpenTelemetryCollector(t *testing.T) {
	program := real.Edge(t, "otelcol")
	b := newOTLPBench(t)
	address := port.Reserve(t, "127.0.0.1")
	b.config.Sources[0].HTTP.Listen, b.config.Sources[0].Format = address, "combined"
	work := t.TempDir()
	path := deployedShipper(t, work, "otelcol.yaml", "/var/lib/otelcol", work, "/var/log/nginx/access.log", b.Path("access.log"), "127.0.0.1:4317", address,
		"service:\n", "service:\n  telemetry: {metrics: {level: none}}\n")
	said := &locked.Buffer{}
	begin := func() (end func(syscall.Signal)) {
		command := exec.Command(program, "--config", path)
		command.Stdout, command.Stderr = t.Output(), io.MultiWriter(said, t.Output())
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		return func(how syscall.Signal) { command.Process.Signal(how); command.Wait() }
	}

	b.start()
	b.Log("access.log", 200)
	end := begin()
	b.sink.Await(t, b.Want) // each once, while nothing fails
	if status := b.source().Status(); status.Uncounted["format"]+status.Uncounted["envelope"] != 0 {
		t.Errorf("uncounted: %v", status.Uncounted)
	}

	b.Log("access.log", 2000)
	wait.Until(t, "some of it has come", func() bool { return b.total() > 200 })
	end(syscall.SIGKILL)
	b.Log("access.log", 100)
	end = begin()
	b.awaitAll()

	b.stop()
	b.Log("access.log", 300)
	wait.Until(t, "it knows that Weir is away", func() bool { return strings.Contains(said.String(), "connection refused") })
	end(syscall.SIGTERM)
	end = begin()
	defer func() { end(syscall.SIGTERM) }()
	b.start()
	if more := b.awaitAll(); more > 0 {
		t.Logf("%d lines came twice", more)
	}
}
