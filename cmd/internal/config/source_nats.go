package config

import (
	"fmt"
	"strings"

	"weir/internal/yamlfile"
)

// NATS configures a source that reads a stream of NATS JetStream.
type NATS struct {
	// URL is the server's, nats://host:4222, or tls:// for TLS; several have commas between them.
	URL string `yaml:"url"`
	// Stream is the name of the stream.
	Stream string `yaml:"stream"`
	// Subject selects the messages of these subjects: logs.*. Default: all.
	Subject string `yaml:"subject"`
	// User is our name. Default: no user.
	User string `yaml:"user"`
	// PasswordFile contains only the password. Default: no password.
	PasswordFile string `yaml:"password_file"`
	// TokenFile contains only a token. Default: no token.
	TokenFile string `yaml:"token_file"`
	// CredentialsFile contains a JWT and the key of its user, as nsc writes it. Default: none.
	CredentialsFile string `yaml:"credentials_file"`
}

func (s *NATS) given() bool { return s.URL != "" || s.Stream != "" }

// Validate checks the URL, the stream and the login.
func (s *NATS) Validate(v yamlfile.Value) {
	const example = `{url: "nats://host:4222", stream: logs}`
	switch {
	case v.Key("url").Faulty() || v.Key("stream").Faulty():
	case s.URL == "":
		v.Faultf("write nats: "+example, "the source names no server")
	case s.Stream == "":
		v.Faultf("write nats: "+example, "the source names no stream")
	case strings.ContainsAny(s.Stream, " .*>/\\\t"):
		v.Key("stream").Faultf("write its name; subject selects messages in it", "%q cannot be the name of a stream", s.Stream)
	default:
		if err := checkNATS(s.URL); err != nil {
			v.Key("url").Fault(err)
		}
	}

	logins := 0
	for _, is := range []bool{s.User != "" || s.PasswordFile != "", s.TokenFile != "", s.CredentialsFile != ""} {
		if is {
			logins++
		}
	}
	switch {
	case logins > 1:
		v.Faultf("give user and password_file, token_file, or credentials_file", "the source has several logins")
	case (s.User == "") != (s.PasswordFile == ""):
		v.Faultf("give both or neither", "only one of user and password_file is given")
	}
}

// checkNATS returns what is wrong with the URLs of servers.
func checkNATS(text string) error {
	if strings.Contains(text, "@") {
		return fmt.Errorf("the URL contains a user, password or token, which logs would show; set user and password_file, token_file or credentials_file next to it")
	}
	for one := range strings.SplitSeq(text, ",") {
		scheme, host, ok := strings.Cut(strings.TrimSpace(one), "://")
		if !ok || scheme != "nats" && scheme != "tls" {
			return fmt.Errorf("%q is not the address of a NATS server; write it as nats://host:4222, or tls:// for TLS", one)
		}
		if err := checkHostPort(host, "4222"); err != nil {
			return err
		}
	}
	return nil
}
