package request

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// stderrEnvelopes are envelopes of containers' lines, with the stream and the line.
var stderrEnvelopes = map[string]func(stream, line string) string{
	"cri": func(stream, line string) string { return "2026-03-01T12:00:00.1Z " + stream + " F " + line },
	"docker": func(stream, line string) string {
		return fmt.Sprintf(`{"log":%s,"stream":%q,"time":"2026-03-01T12:00:00Z"}`, quotedJSON(line+"\n"), stream)
	},
	"filebeat": func(stream, line string) string {
		return fmt.Sprintf(`{"@timestamp":"2026-03-01T12:00:00.000Z","agent":{"type":"filebeat"},"stream":%q,"message":%s}`, stream, quotedJSON(line))
	},
	"fluentbit": func(stream, line string) string {
		return fmt.Sprintf(`{"date":1772366400.5,"stream":%q,"log":%s}`, stream, quotedJSON(line))
	},
	"fluentbit/docker": func(stream, line string) string { // Docker's driver for Fluentd
		return fmt.Sprintf(`{"date":1772366400.5,"container_id":"1","source":%q,"log":%s}`, stream, quotedJSON(line))
	},
	"vector": func(stream, line string) string {
		return fmt.Sprintf(`{"source_type":"docker_logs","timestamp":"2026-03-01T12:00:00Z","stream":%q,"message":%s}`, stream, quotedJSON(line))
	},
	"vector/otel": func(stream, line string) string { // its source opentelemetry
		return fmt.Sprintf(`{"source_type":"opentelemetry","timestamp":"2026-03-01T12:00:00Z","attributes":{"log.iostream":%q},"message":%s}`, stream, quotedJSON(line))
	},
	"logstash": func(stream, line string) string {
		return fmt.Sprintf(`{"@timestamp":"2026-03-01T12:00:00Z","@version":"1","log":{"iostream":%q},"message":%s}`, stream, quotedJSON(line))
	},
	"logstash/gelf": func(stream, line string) string { // Docker's driver for GELF
		level := map[string]int{"stdout": 6, "stderr": 3}[stream]
		return fmt.Sprintf(`{"@timestamp":"2026-03-01T12:00:00Z","@version":"1","container_id":"1","level":%d,"message":%s}`, level, quotedJSON(line))
	},
	"otlp": func(stream, line string) string {
		return fmt.Sprintf(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":%s},"attributes":[{"key":"log.iostream","value":{"stringValue":%q}}]}]}]}]}`,
			quotedJSON(line), stream)
	},
}

func init() {
	for _, name := range []string{"stream", "logstream", "source"} { // labels of Loki
		stderrEnvelopes["otlp/"+name] = func(stream, line string) string {
			return strings.Replace(stderrEnvelopes["otlp"](stream, line), "log.iostream", name, 1)
		}
	}
}

func quotedJSON(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

// nginx writes the path of a file that does not exist into its error log decoded, with its newlines. In a container that
// log is standard error, and so a client could write a line of the access log there, with any address.
func TestStandardErrorHasNoRequests(t *testing.T) {
	jsonLine := `{"time_iso8601":"2026-03-01T10:15:30+00:00","remote_addr":"203.0.113.7","request":"GET /a HTTP/1.1","status":200}`
	for envelope, wrap := range stderrEnvelopes {
		envelope, _, _ = strings.Cut(envelope, "/")
		for format, line := range map[string]string{"combined": aliceLine, nginxJSON: jsonLine} {
			var r Request
			d := newDecoder(t, envelope, format, Options{})
			if err := d.Decode(wrap("stderr", line), &r); err != error(errStderr) || d.Pending() {
				t.Errorf("%s, %s: %v", envelope, format, err)
			}
			if err := d.Decode(wrap("stdout", line), &r); err != nil {
				t.Errorf("%s, %s: %v", envelope, format, err)
			}
			if err := newDecoder(t, envelope, format, Options{Stderr: true}).Decode(wrap("stderr", line), &r); err != nil {
				t.Errorf("%s, %s, with standard error: %v", envelope, format, err)
			}
		}

		var r Request
		line := `{"level":"info","ts":1772360130.5,"request":{"remote_ip":"203.0.113.7","method":"GET","host":"h","uri":"/a"},"status":200}`
		if err := newDecoder(t, envelope, "caddy", Options{}).Decode(wrap("stderr", line), &r); err != nil {
			t.Errorf("%s: Caddy: %v", envelope, err)
		}
	}
}

// A client can write any number of lines to standard error, and they must not change how a log is read.
func TestStandardErrorChoosesNoFormat(t *testing.T) {
	for envelope, wrap := range stderrEnvelopes {
		envelope, _, _ = strings.Cut(envelope, "/")
		forged := `203.0.113.9 198.51.100.1 - - ` + strings.TrimPrefix(aliceLine, "203.0.113.7 - alice ")
		sample := []string{wrap("stdout", aliceLine)}
		for range 20 {
			sample = append(sample, wrap("stderr", forged), wrap("stderr", "2026/03/01 12:00:00 [error] 7#7: *1 open() failed"))
		}
		if choice, err := Detect(sample, Options{}); err != nil || choice.Format != "combined" || choice.Envelope != envelope || choice.Lines != 1 {
			t.Errorf("%s: %s, %v", envelope, choice, err)
		}
		choice, err := Detect([]string{wrap("stderr", aliceLine)}, Options{})
		if err == nil || !strings.Contains(err.Error(), "a line that was not read (format)") {
			t.Errorf("%s, only standard error: %s, %v", envelope, choice, err)
		}
		if choice, err := Detect([]string{wrap("stderr", aliceLine)}, Options{Stderr: true}); err != nil || choice.Format != "combined" {
			t.Errorf("%s, with standard error: %s, %v", envelope, choice, err)
		}
	}
}
