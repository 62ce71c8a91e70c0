package config

import (
	"regexp"
	"strings"

	"weir/internal/amazon"
	"weir/internal/yamlfile"
)

// Kinesis configures a source that reads a stream of Amazon Kinesis Data Streams.
type Kinesis struct {
	// Stream is the name of the stream.
	Stream string `yaml:"stream"`
	// Region is that of the stream. Default: that of the SDK's environment and files.
	Region string `yaml:"region"`
	// Endpoint is the URL of a server of Kinesis other than Amazon's. Default: that of the SDK's environment and files.
	Endpoint string `yaml:"endpoint"`
}

func (s *Kinesis) given() bool { return s.Stream != "" }

var kinesisName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,128}$`)

// warnPlain warns of a server on another machine whose answers are not encrypted, unless its URL has another fault.
func warnPlain(v yamlfile.Value, text string, fault error) {
	host, plain := strings.CutPrefix(text, "http://")
	switch {
	case fault != nil:
		v.Fault(fault)
	case plain && !loopbackHost(strings.TrimSuffix(host, "/")):
		v.Warnf("write https:// if the server has it", "requests can be read and changed on their way from %s, and so decide who is blocked", text)
	}
}

// warnOfPassword warns of a secret that everyone on the way to the servers of a URL can read. scheme is the one without TLS.
func warnOfPassword(v yamlfile.Value, urls, scheme, write string) {
	for one := range strings.SplitSeq(urls, ",") {
		rest, plain := strings.CutPrefix(strings.TrimSpace(one), scheme)
		if !plain && strings.Contains(one, "://") {
			continue
		}
		if host, _, _ := strings.Cut(rest, "/"); !loopbackHost(host) {
			v.Warnf(write, "the secret is sent to %s without encryption", host)
			return
		}
	}
}

// Validate checks the stream and the endpoint.
func (s *Kinesis) Validate(v yamlfile.Value) {
	switch {
	case v.Key("stream").Faulty():
	case s.Stream == "":
		v.Faultf("write kinesis: {stream: logs, region: eu-central-1}", "the source names no stream")
	case !kinesisName.MatchString(s.Stream):
		v.Key("stream").Faultf("write its name, not its ARN", "%q cannot be the name of a stream", s.Stream)
	}
	if s.Endpoint != "" {
		warnPlain(v.Key("endpoint"), s.Endpoint, amazon.CheckEndpoint(s.Endpoint))
	}
}
