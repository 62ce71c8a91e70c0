package config

import (
	"fmt"
	"net/url"
	"strings"

	"weir/internal/yamlfile"
)

// AMQP configures a source that reads a queue of RabbitMQ.
type AMQP struct {
	// URL is the server's, amqp://host:5672/vhost, or amqps:// for TLS.
	URL string `yaml:"url"`
	// Queue is the name of a queue: of the type stream, or with Acknowledge of another.
	Queue string `yaml:"queue"`
	// Acknowledge means that the queue is a classic or a quorum queue, and takes its messages out of it.
	Acknowledge bool `yaml:"acknowledge"`
	// User is our name. Default: guest, which RabbitMQ lets in from its own machine only.
	User string `yaml:"user"`
	// PasswordFile contains only the password. Default: that of guest.
	PasswordFile string `yaml:"password_file"`
}

func (s *AMQP) given() bool { return s.URL != "" || s.Queue != "" }

// Validate checks the URL, the queue and the login.
func (s *AMQP) Validate(v yamlfile.Value) {
	const example = `{url: "amqp://host:5672", queue: logs}`
	switch {
	case v.Key("url").Faulty() || v.Key("queue").Faulty():
	case s.URL == "":
		v.Faultf("write amqp: "+example, "the source names no server")
	case s.Queue == "":
		v.Faultf("write amqp: "+example, "the source names no queue")
	default:
		if err := checkAMQP(s.URL); err != nil {
			v.Key("url").Fault(err)
		} else if s.PasswordFile != "" {
			warnOfPassword(v.Key("url"), s.URL, "amqp://", "write amqps:// if the server has it")
		}
	}
	if (s.User == "") != (s.PasswordFile == "") {
		v.Faultf("give both or neither", "only one of user and password_file is given")
	}
}

// checkAMQP returns what is wrong with the URL of a server.
func checkAMQP(text string) error {
	if strings.Contains(text, "@") {
		return fmt.Errorf("the URL contains a user or password, which logs would show; set user and password_file next to it")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "amqp" && u.Scheme != "amqps" || u.RawQuery != "" || u.Fragment != "" || strings.Count(u.Path, "/") > 1 {
		return fmt.Errorf("%q is not the address of a RabbitMQ; write it as amqp://host:5672/vhost, or amqps:// for TLS", text)
	}
	if u.Scheme == "amqps" {
		return checkHostPort(u.Host, "5671")
	}
	return checkHostPort(u.Host, "5672")
}

// checkAMQP checks the source's settings for TLS, and that nothing asks for messages again that are gone.
func (s *Source) checkAMQP(v yamlfile.Value) {
	if s.AMQP.Acknowledge && v.Has("start") {
		v.Key("start").Faultf("leave it out", "start has no meaning for a queue whose messages are acknowledged: all that it has are read")
	}
	if s.TLS.On && strings.HasPrefix(strings.ToLower(s.AMQP.URL), "amqp://") {
		v.Key("tls").Faultf("write url: \"amqps://…\"", "tls is given, but amqp:// is not encrypted")
	}
}
