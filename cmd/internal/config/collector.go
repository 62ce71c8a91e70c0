package config

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/duration"
	"weir/internal/network"
	"weir/internal/origin"
	"weir/internal/yamlfile"
	"weir/pkg/evidence"
	"weir/pkg/request"
	"weir/pkg/rule"
)

// Collector configures the sources of requests.
type Collector struct {
	// Listen is the address for status, metrics, health and profiles; beyond loopback it needs keys or client
	// certificates. Default: 127.0.0.1:7401.
	Listen string `yaml:"listen"`
	// Keys is the file of the API keys. Default: none.
	Keys string `yaml:"keys"`
	// TLS encrypts the address. Default: not encrypted.
	TLS ServerTLS `yaml:"tls"`
	// Batch is how long a line that was just written may wait for others, so that all of them are synced and sent
	// together; 0 sends each at once. Default: 20ms.
	Batch duration.Duration `yaml:"batch"`
	// Evidence is how much memory keeps the last requests that counted, for the rules' evidence: 64KiB or more, or 0 for
	// none. Default: 16MiB.
	Evidence Size `yaml:"evidence"`
	// Settle names the enforcers to which the collector reports that a request at a limit at once has ended (ends: log in
	// a rule), besides that of the same process. Default: none.
	Settle Settle `yaml:"settle"`
	// Sources are all read at the same time. Default: none.
	Sources []Source `yaml:"sources"`
}

// Settle configures where a collector reports the ends of requests.
type Settle struct {
	// Enforcers are the URLs of enforcers. Default: none.
	Enforcers Texts `yaml:"enforcers"`
	// KeyFile contains the API key for them, with the role take. Default: none.
	KeyFile string `yaml:"key_file"`
	// TLS configures the connections where a URL is https. Default: the system's roots.
	TLS ClientTLS `yaml:"tls"`
}

// Validate checks the URLs.
func (s *Settle) Validate(v yamlfile.Value) {
	for i, text := range s.Enforcers {
		switch _, err := origin.Server(text); {
		case errors.Is(err, origin.ErrUser):
			v.Key("enforcers").Fault(err)
		case err != nil:
			v.Key("enforcers").Faultf("write https://enforcer.example:7421", "%q is not the URL of an enforcer", s.Enforcers[i])
		}
	}
	if len(s.Enforcers) == 0 && (s.KeyFile != "" || s.TLS.On) && !v.Faulty() {
		v.Faultf("write enforcers: [https://enforcer.example:7421] next to it", "there is no enforcer to report to")
	}
}

// longestBatch bounds what comes while a collector does not look: syslog that does not wait is dropped.
const longestBatch = time.Second

// Validate checks the address and the latency budget.
func (c *Collector) Validate(v yamlfile.Value) {
	if time.Duration(c.Batch) > longestBatch {
		v.Key("batch").Faultf("write 1s or less; 20ms is usual", "a batch of %s is too long", v.Key("batch").Text())
	}
	if place := v.Key("evidence"); !place.Faulty() && c.Evidence > 0 && c.Evidence < evidence.MinRing {
		place.Faultf("write 64KiB or more, or 0 for none", "%s keeps too few requests", c.Evidence)
	}
	guard(v.Key("listen"), c.Listen, keysOrLoopback, c.Keys != "" || c.TLS.Clients != "")
}

// distinctNames gives a name to each source without one, and refuses the same name twice, because it is a label of
// metrics.
func (c *Collector) distinctNames(v yamlfile.Value) {
	taken := map[string]bool{}
	for i := range c.Sources {
		name := c.Sources[i].Name
		if taken[name] && name != "" {
			nth(v, i).Key("name").Faultf("give each its own", "two sources have the name %s", name)
		}
		taken[name] = true
	}

	for i := range c.Sources {
		// Given names come first, so that none of them is taken by a source without one.
		source := &c.Sources[i]
		for n := 1; source.Name == ""; n++ {
			if name := source.Kind() + "-" + strconv.Itoa(n); !taken[name] {
				source.Name, taken[name] = name, true
			}
		}
	}
}

// fields are what is known about the fields of requests from all sources; header is the one of the client's address.
func (c *Collector) fields(header string) rule.Fields {
	known := rule.Fields{Complete: slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Format != "attempts" })}
	for i := range c.Sources {
		s := &c.Sources[i]
		if s.Format == "attempts" { // rules count either attempts or requests
			continue
		}
		names, complete := request.FieldsOf(s.Format, request.Options{Zone: s.Zone.Location, Fields: s.LineFields(), Line: s.Line, Header: header})
		outer, _ := s.HeaderFields()
		known.Names = append(append(known.Names, names...), outer...)
		known.Complete = known.Complete && complete
	}
	slices.Sort(known.Names)
	known.Names = slices.Compact(known.Names)
	return known
}

// A Source is of one of these kinds: exactly one of file, kafka, journald, redis_stream, nats, amqp, kinesis, s3, hdfs, http, syslog, otlp
// and loki is given.
type Source struct {
	// File are paths and globs of log files, read from their beginning and followed; or one named pipe, or - for
	// standard input.
	File Texts `yaml:"file"`
	// Kafka are topics, and patterns of topics (access-*), which a group of collectors reads, or with commit local this collector alone.
	Kafka Texts `yaml:"kafka"`
	// Journald names entries in journals of systemd, which this collector reads alone.
	Journald Journald `yaml:"journald"`
	// RedisStream names streams of a Redis, which this collector reads alone.
	RedisStream RedisStream `yaml:"redis_stream"`
	// NATS names a stream of NATS JetStream, which this collector reads alone.
	NATS NATS `yaml:"nats"`
	// AMQP names a queue of RabbitMQ. If it is a stream, this collector reads it alone.
	AMQP AMQP `yaml:"amqp"`
	// Kinesis names a stream of Amazon Kinesis, which this collector reads alone.
	Kinesis Kinesis `yaml:"kinesis"`
	// S3 is where objects are that this collector reads alone: s3://bucket/prefix/.
	S3 string `yaml:"s3"`
	// HDFS names files of an HDFS that this collector reads alone.
	HDFS HDFS `yaml:"hdfs"`
	// HTTP is the address that accepts lines (POST /v1/requests); beyond loopback it needs keys with the role send, or
	// client certificates.
	HTTP string `yaml:"http"`
	// Syslog is the address that accepts lines: udp://host:port, tcp://, tls://, unix:///path for datagrams as with
	// /dev/log, or unixstream:///path; beyond loopback it needs from, or client certificates.
	Syslog string `yaml:"syslog"`
	// OTLP is the address that accepts OpenTelemetry's logs over gRPC and HTTP (POST /v1/logs); beyond loopback it needs
	// keys with the role send, or client certificates.
	OTLP string `yaml:"otlp"`
	// Loki is the address that accepts what clients of Loki push (POST /loki/api/v1/push); beyond loopback it needs keys
	// with the role send, or client certificates.
	Loki string `yaml:"loki"`

	// Name is the source's name in metrics. Default: its kind and a number.
	Name string `yaml:"name"`
	// Envelope is the format around each line: none, filebeat, fluentbit, vector, logstash, otlp, docker, cri, quoted,
	// syslog, syslog-ng, or auto, which detects it. Default: auto.
	Envelope string `yaml:"envelope"`
	// Line is the key of the line in records of JSON, where no envelope has it: payload.text. Default: the envelope's own.
	Line string `yaml:"line"`
	// Format is a preset's name, an nginx log_format or Apache LogFormat string, json, or auto, which detects it.
	// Default: auto.
	Format string `yaml:"format"`
	// Zone is the time zone of times without one: Europe/Berlin. Default: UTC.
	Zone Zone `yaml:"zone"`
	// Only is an expression over the record; records for which it does not hold are counted as filtered.
	// Default: all.
	Only string `yaml:"only"`
	// Fields map our names to the names in the format, {user: jwt.sub}, or of a kafka source to headers of records,
	// {tenant: "header:tenant"}. Default: none.
	Fields map[string]string `yaml:"fields"`
	// Dedupe counts each request once that stands in the source several times. Default: none, all count.
	Dedupe Dedupe `yaml:"dedupe"`
	// Start is where to begin when no position is stored for the source: earliest, latest, or 25h before now.
	// Default: earliest.
	Start Start `yaml:"start"`
	// Late is the source's own lateness, see time.late. Default: 0, that of time.late.
	Late duration.Duration `yaml:"late"`
	// Keys is the file of the API keys of an http, otlp or loki source. Default: none.
	Keys string `yaml:"keys"`
	// From lists the addresses and prefixes that may send to a syslog source, see client.trusted_proxies. Default:
	// everyone, on loopback.
	From network.List `yaml:"from"`
	// TLS encrypts an http, otlp or loki source, a syslog source of the form tls://, or the connections to a kafka source's own
	// brokers; for a redis_stream with rediss://, for nats and for amqp with amqps:// it has the certificates. Default: not encrypted.
	TLS SourceTLS `yaml:"tls"`
	// Brokers are those of a kafka source, where they are not kafka.brokers. Nothing is written there. Default:
	// kafka.brokers.
	Brokers Brokers `yaml:"brokers"`
	// SASL is our user at a kafka source's own brokers. Default: no user.
	SASL SASL `yaml:"sasl"`
	// Commit is where a kafka source keeps how far it has read: group, a consumer group in that Kafka, or local, the data
	// folder of this collector, which then reads all partitions. Default: group, and with brokers local.
	Commit string `yaml:"commit"`
	// SQS is the URL of a queue with S3's events about the objects of an s3 source. Default: none; the prefix is listed.
	SQS string `yaml:"sqs"`
	// Region is that of the bucket of an s3 source. Default: that of the SDK's environment and files.
	Region string `yaml:"region"`
	// Endpoint is the URL of a server of S3 other than Amazon's. Default: that of the SDK's environment and files.
	Endpoint string `yaml:"endpoint"`
	// Delay is how long after its time of modification an object of an s3 source, or a file of an hdfs source, may appear; with sqs, how long objects
	// that were read are remembered. Default: 1h.
	Delay duration.Duration `yaml:"delay"`
}

// DefaultDelay is that of an s3 or hdfs source.
const DefaultDelay = duration.Duration(time.Hour)

// FromYAML sets the defaults of a source and reads its keys.
func (s *Source) FromYAML(v yamlfile.Value) {
	*s = Source{Envelope: "auto", Format: "auto", Start: Start{Earliest: true}, Zone: Zone{time.UTC}, Delay: DefaultDelay}
	type plain Source
	v.Decode((*plain)(s))
	if v.Null() || s.checkKind(v) {
		// Without a value that can be read, the kind is not known.
		if slices.ContainsFunc(kinds, func(kind string) bool { return v.Has(kind) && v.Key(kind).Faulty() }) {
			s.checkReading(v)
			return
		}

		// Refuse keys that have no meaning for the kind.
		for key, of := range map[string][]string{
			"start":    {"file", "kafka", "journald", "redis_stream", "nats", "amqp", "kinesis", "s3", "hdfs"},
			"keys":     {"http", "otlp", "loki"},
			"from":     {"syslog"},
			"tls":      {"http", "syslog", "kafka", "redis_stream", "nats", "amqp", "otlp", "loki"},
			"brokers":  {"kafka"},
			"sasl":     {"kafka"},
			"commit":   {"kafka"},
			"sqs":      {"s3"},
			"region":   {"s3"},
			"endpoint": {"s3"},
			"delay":    {"s3", "hdfs"},
		} {
			if kind := s.Kind(); v.Has(key) && !slices.Contains(of, kind) {
				v.Key(key).Faultf("leave it out", "%s has no meaning for a source of the kind %s", key, kind)
			}
		}

		s.checkPatterns(v.Key("file"))
		s.checkStdin(v)
		s.checkReading(v)
		s.checkGuard(v)
		s.checkTLS(v)
		switch s.Kind() {
		case "kafka":
			s.checkTopics(v)
			s.checkBrokers(v)
		case "redis_stream":
			s.checkRedisStream(v)
		case "amqp":
			s.checkAMQP(v)
		case "nats":
			if !s.TLS.On && s.NATS.PasswordFile+s.NATS.TokenFile != "" {
				warnOfPassword(v.Key("nats").Key("url"), s.NATS.URL, "nats://", "write tls:// if the server has it")
			}
		case "s3":
			s.checkS3(v)
		case "hdfs":
			s.checkDelay(v)
		}
		s.checkHeaders(v)
		s.checkDedupe(v) // it needs what the kind has set
	}
}

// checkPatterns warns of forms that patterns have elsewhere, and that would match fewer files here.
func (s *Source) checkPatterns(v yamlfile.Value) {
	for _, pattern := range s.File {
		if strings.Contains(pattern, "**") {
			v.Warnf("write a pattern for each depth, as /var/www/*/access.log and /var/www/*/*/access.log", "** in %s stands for exactly one folder, as * does", pattern)
		}
		if strings.ContainsRune(pattern, '{') && strings.Contains(pattern, ",") {
			v.Warnf("write a list of patterns, as [access.log, other.log]", "{…} in %s stands for itself", pattern)
		}
	}
}

// Pipe reports whether the source is standard input or a named pipe, which cannot be read again.
func (s *Source) Pipe() bool {
	if len(s.File) != 1 {
		return false
	}
	info, err := os.Stat(s.File[0])
	return s.File[0] == stdin || err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// stdin is the path of standard input.
const stdin = "-"

// checkStdin refuses standard input next to files, and a beginning in what cannot be read again.
func (s *Source) checkStdin(v yamlfile.Value) {
	switch {
	case len(s.File) > 1 && slices.Contains(s.File, stdin):
		v.Key("file").Faultf("make it a source of its own", "standard input is named next to files")
	case s.Pipe() && v.Has("start"):
		v.Key("start").Faultf("leave it out", "start has no meaning for a pipe, which cannot be read again")
	}
}

var kinds = []string{"file", "kafka", "journald", "redis_stream", "nats", "amqp", "kinesis", "s3", "hdfs", "http", "syslog", "otlp", "loki"}

// checkKind requires exactly one kind.
func (s *Source) checkKind(v yamlfile.Value) bool {
	var given []string
	for _, kind := range kinds {
		if v.Has(kind) {
			given = append(given, kind)
		}
	}

	switch len(given) {
	case 0:
		v.Faultf("add one of "+strings.Join(kinds, ", "), "the source has no kind")
	case 1:
		return true
	default:
		v.Key(given[1]).Faultf("make it a source of its own", "the source is %s already, and %s as well", given[0], given[1])
	}

	return false
}

// Kind returns the key that the source is given by: one of kinds.
func (s *Source) Kind() string {
	switch {
	case len(s.File) > 0:
		return "file"
	case len(s.Kafka) > 0:
		return "kafka"
	case s.Journald.given():
		return "journald"
	case s.RedisStream.given():
		return "redis_stream"
	case s.NATS.given():
		return "nats"
	case s.AMQP.given():
		return "amqp"
	case s.Kinesis.given():
		return "kinesis"
	case s.S3 != "":
		return "s3"
	case s.HDFS.given():
		return "hdfs"
	case s.HTTP != "":
		return "http"
	case s.OTLP != "":
		return "otlp"
	case s.Loki != "":
		return "loki"
	}
	return "syslog"
}

// Texts is a text or a list of them.
type Texts []string

// FromYAML reads one text or several.
func (t *Texts) FromYAML(v yamlfile.Value) {
	*t = nil
	for _, element := range scalarOrList(v) {
		if text := element.Text(); text != "" {
			*t = append(*t, text)
		}
	}
}
