package topics

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/test/real"
)

// The files in deployments/shippers for rsyslog, syslog-ng and the OpenTelemetry Collector bring each line into the
// topic once, in the envelope that they name. rsyslog does not begin again after it was killed.
func TestDeployedShippersWriteToTopics(t *testing.T) {
	programs := map[string]string{"rsyslog.conf": real.Program(t, "rsyslogd", "rsyslog"), "syslog-ng.conf": real.Edge(t, "syslog-ng"), "otelcol-kafka.yaml": real.Edge(t, "otelcol")}
	if found, _ := filepath.Glob("/usr/lib/*/rsyslog/omkafka.so"); found == nil {
		real.Missing(t, "rsyslog's omkafka is missing: apt-get install rsyslog-kafka")
	}
	config := kafka.Config{Brokers: kafkatest.Shared(t).Addresses(), Create: true}
	for name, program := range programs {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, config, 1)
			b.make()
			work := t.TempDir()
			log := filepath.Join(work, "access.log")
			write := func(lines int) {
				file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				for range lines {
					if _, err := file.WriteString(b.line() + "\n"); err != nil {
						t.Fatal(err)
					}
				}
			}
			write(200)

			text, err := os.ReadFile("../../../deployments/shippers/" + name)
			if err != nil {
				t.Fatal(err)
			}
			broker := config.Brokers[0]
			deployed := strings.NewReplacer("/var/log/nginx/access.log", log, "/var/spool/rsyslog", work, "/var/lib/otelcol", work,
				`topic="logs"`, `topic="`+b.topic+`"`, `topic("logs")`, `topic("`+b.topic+`")`, "topic: logs", "topic: "+b.topic, "service:\n", "service:\n  telemetry: {metrics: {level: none}}\n",
				`"kafka-1.internal:9092", "kafka-2.internal:9092"`, `"`+broker+`"`, `"kafka-1.internal:9092","kafka-2.internal:9092"`, `"`+broker+`"`, "kafka-1.internal:9092,kafka-2.internal:9092", broker).Replace(string(text))
			if strings.Contains(deployed, "kafka-1") || strings.Contains(deployed, `"logs"`) || strings.Contains(deployed, "/var/") {
				t.Fatalf("%s has other places: %s", name, deployed)
			}
			arguments := []string{"-n", "-i", filepath.Join(work, "pid"), "-f"}
			b.source.Envelope, b.source.Format = "syslog", "combined"
			switch name {
			case "otelcol-kafka.yaml":
				arguments, b.source.Envelope = []string{"--config"}, "otlp"
			case "syslog-ng.conf":
				arguments = []string{"-F", "--no-caps", "-R", filepath.Join(work, "persist"), "-p", filepath.Join(work, "pid"), "-c", filepath.Join(work, "control"), "-f"}
			}
			kill := runShipper(t, filepath.Join(work, name), deployed, program, arguments...)

			c := b.read()
			if name == "rsyslog.conf" { // it has noted what it read; the others do so a moment later
				kill()
				runShipper(t, filepath.Join(work, name), deployed, program, "-n", "-i", filepath.Join(work, "pid2"), "-f")
			}
			write(100)
			b.sink.Await(t, b.want)
			c.stop()
			status := c.Status().Sources[0]
			if status.Requests != 300 || status.Uncounted["envelope"]+status.Uncounted["format"] != 0 {
				t.Errorf("%d requests, uncounted %v", status.Requests, status.Uncounted)
			}
		})
	}
}
