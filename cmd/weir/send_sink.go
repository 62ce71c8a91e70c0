package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"weir/cmd/internal/config"
	"weir/cmd/internal/daemon"
	"weir/cmd/internal/exit"
)

// sink opens the sink that the flags select.
func (s *sendCommand) sink(c *cobra.Command) (sink, error) {
	if s.topic != "" {
		settings, err := s.live.load()
		if err != nil {
			return nil, err
		}
		return openTopicSink(c, settings, s.topic)
	}

	to := s.to
	if to == "" {
		settings, err := s.live.load()
		if err != nil {
			return nil, err
		}
		if to, err = httpSourceOf(settings); err != nil {
			return nil, err
		}
	}

	at, err := requestsURL(to)
	if err != nil {
		return nil, err
	}

	key, err := shownKey(s.keyFile)
	if err != nil {
		return nil, err
	}
	return newHTTPSink(at, key), nil
}

// httpSourceOf returns the URL of the first http source of a configuration.
func httpSourceOf(settings *config.Config) (string, error) {
	for i := range settings.Collector.Sources {
		source := &settings.Collector.Sources[i]
		if source.Kind() != "http" {
			continue
		}
		if source.TLS.Cert != "" {
			return "https://" + reachable(source.HTTP), nil
		}
		return "http://" + reachable(source.HTTP), nil
	}
	return "", exit.Wrongf("the configuration has no http source to send to; give --to http://127.0.0.1:7402, or --topic")
}

// requestsURL returns the URL for a collector's requests; --to may leave out the path.
func requestsURL(to string) (string, error) {
	at, err := url.Parse(to)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return "", exit.Wrongf("--to %s is not the URL of a collector's http source; write it as http://127.0.0.1:7402", to)
	}
	if at.Path == "" || at.Path == "/" {
		at.Path = "/v1/requests"
	}
	return at.String(), nil
}

// readKey reads an API key from a file of one line.
func readKey(file string) (string, error) {
	key, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	key = bytes.TrimSpace(key)
	if len(key) == 0 || bytes.ContainsAny(key, "\r\n") {
		return "", fmt.Errorf("%s must contain an API key, in one line", file)
	}
	return string(key), nil
}

// ownTopic reports whether a topic is one that the parts write to.
func ownTopic(settings *config.Config, topic string) bool {
	for _, own := range []string{daemon.Hits, daemon.Blocklist, daemon.Events} {
		if topic == settings.Kafka.Prefix+own {
			return true
		}
	}
	return false
}
