package topics

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/pkg/collector/pipeline"
	"weir/test/real"
	"weir/test/sink"
)

// A shipping is how a real shipper is set to write one log to a topic.
type shipping struct{ name, config string }

var rsyslogs = []shipping{
	{"its default", ``},
	{"RFC 5424", `template="RSYSLOG_SyslogProtocol23Format"`},
	{"as in files", `template="RSYSLOG_TraditionalFileFormat"`},
	{"as over UDP", `template="RSYSLOG_TraditionalForwardFormat"`},
	{"the message", `template="msg"`},
}

var syslogngs = []shipping{
	{"its default", ``},
	{"RFC 5424 in JSON", `message("$(format-json --scope rfc5424)")`},
	{"all in JSON", `message("$(format-json --scope nv-pairs --pair time=$ISODATE)")`},
	{"the message", `message("$MSG")`},
}

var otelcols = []shipping{
	{"its default", ``},
	{"JSON", `encoding: otlp_json, `},
	{"raw", `encoding: raw, `},
}

// The records of real shippers are read with their defaults, without any setting at ours.
func TestRealShippersRecordsAreRead(t *testing.T) {
	rsyslog := real.Program(t, "rsyslogd", "rsyslog")
	if found, _ := filepath.Glob("/usr/lib/*/rsyslog/omkafka.so"); found == nil {
		real.Missing(t, "rsyslog's omkafka is missing: apt-get install rsyslog-kafka")
	}
	syslogng := real.Edge(t, "syslog-ng")
	otelcol := real.Edge(t, "otelcol")
	kcat := real.Program(t, "kcat", "kcat")
	config := kafka.Config{Brokers: kafkatest.Shared(t).Addresses(), Create: true}
	broker := config.Brokers[0]

	b := newBench(t, config, 1)
	work := t.TempDir()
	log := filepath.Join(work, "access.log")
	var text strings.Builder
	for range 200 {
		text.WriteString(b.line() + "\n")
	}
	if err := os.WriteFile(log, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	each := b.want
	b.want = map[string]int64{}

	var sources []sourceConfig
	of := func(name string) string {
		one := newBench(t, config, 1)
		one.make()
		config := *one.source.Kafka
		config.Client = one.client
		sources = append(sources, sourceConfig{IntakeConfig: pipeline.IntakeConfig{Name: name, Envelope: "auto", Format: "auto"}, Kafka: &config})
		for key, n := range each {
			b.want[key] += n
		}
		return one.topic
	}

	var actions, logs strings.Builder
	for _, s := range rsyslogs {
		fmt.Fprintf(&actions, "action(type=\"omkafka\" broker=[%q] topic=%q %s)\n", broker, of("rsyslog, "+s.name), s.config)
	}
	runShipper(t, filepath.Join(work, "rsyslog.conf"), fmt.Sprintf(`
		global(workDirectory=%q maxMessageSize="64k")
		module(load="imfile" mode="inotify")
		module(load="omkafka")
		template(name="msg" type="string" string="%%msg%%")
		input(type="imfile" file=%q tag="nginx:" addMetadata="off")
		%s`, work, log, &actions), rsyslog, "-n", "-i", filepath.Join(work, "rsyslog.pid"), "-f")

	for _, s := range syslogngs {
		fmt.Fprintf(&logs, "log { source(s); destination { kafka-c(bootstrap-servers(%q) topic(%q) %s); }; };\n", broker, of("syslog-ng, "+s.name), s.config)
	}
	fmt.Fprintf(&logs, "log { source(bare); destination { kafka-c(bootstrap-servers(%q) topic(%q)); }; };\n", broker, of("syslog-ng, parsed"))
	runShipper(t, filepath.Join(work, "syslog-ng.conf"), fmt.Sprintf(`@version: 3.38
		source s { file(%[1]q flags(no-parse) program-override("nginx") read-old-records(yes)); };
		source bare { file(%[1]q read-old-records(yes) persist-name("bare")); };
		%[2]s`, log, &logs), syslogng, "-F", "--no-caps", "-R", filepath.Join(work, "persist"), "-p", filepath.Join(work, "syslog-ng.pid"), "-c", filepath.Join(work, "control"), "-f")

	var exporters, names []string
	for i, s := range otelcols {
		names = append(names, fmt.Sprint("kafka/", i))
		exporters = append(exporters, fmt.Sprintf("%s: {brokers: [%q], logs: {%stopic: %s}}", names[i], broker, s.config, of("otelcol, "+s.name)))
	}
	runShipper(t, filepath.Join(work, "otelcol.yaml"), fmt.Sprintf("receivers: {file_log: {include: [%q], start_at: beginning}}\nexporters: {%s}\nservice: {telemetry: {metrics: {level: none}}, pipelines: {logs: {receivers: [file_log], exporters: [%s]}}}\n",
		log, strings.Join(exporters, ", "), strings.Join(names, ", ")), otelcol, "--config")

	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		command := exec.CommandContext(b.within(time.Minute), kcat, "-P", "-b", broker, "-t", of("kcat, "+codec), "-z", codec, "-l", log)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("kcat with %s: %v: %s", codec, err, out)
		}
	}

	c := b.read(func(c *reading) { c.Sources = sources })
	c.stop()
	if sum := sink.Brief(b.want); len(b.want) != 7 {
		t.Error(sum)
	}
	for _, s := range c.Status().Sources {
		t.Logf("%s: %s", s.Name, s.Format)
		if s.Requests != 200 || s.Uncounted["format"]+s.Uncounted["envelope"] != 0 {
			t.Errorf("%s: %d requests, uncounted: %v", s.Name, s.Requests, s.Uncounted)
		}
	}
}

// runShipper runs a shipper until it is killed, or the end of the test. The path of its configuration is its last argument.
func runShipper(t *testing.T, path, config, program string, arguments ...string) (kill func()) {
	t.Helper()
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, append(arguments, path)...)
	command.Stdout, command.Stderr = t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() { cancel(); command.Wait() }
	t.Cleanup(kill)
	return kill
}
